// Beside the pointer there is room in a wide drawing alone; the line below it has room everywhere.
hover.tooltips = cb_obj.inner_width < least ? null : tooltips
