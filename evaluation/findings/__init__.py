"""What the page of one study shows that no other page does, as slots for its words."""
