// Puts the offsets of another plan into the map. The part of the map in view stays, except
// where that is all of it: then it is all of the new plan.
const plan = Number(cb_obj.value)
const {data} = source
const offset = offsets.data[cb_obj.value]
const bottom = new Float64Array(offset.length)
const top = new Float64Array(offset.length)
for (let i = 0; i < offset.length; i++) {
  bottom[i] = offset[i] / scale
  top[i] = (offset[i] + data.size[i]) / scale
}
source.data = {...data, offset, bottom, top}
peak_line.location = peaks[plan]
caption.text = captions[plan]
const is_whole = range.start <= 0 && range.end >= range.reset_end
range.reset_end = tops[plan]
if (is_whole) {
  range.end = tops[plan]
}
