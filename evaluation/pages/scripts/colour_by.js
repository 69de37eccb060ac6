// Colours the rectangles by another property, and shows its legend.
const index = cb_obj.value
const fill_color = {field: `class_${index}`, transform: mappers[Number(index)]}
for (const glyph of [quads.glyph, quads.selection_glyph, quads.nonselection_glyph]) {
  glyph.fill_color = fill_color
}
legend.text = legends[Number(index)]
