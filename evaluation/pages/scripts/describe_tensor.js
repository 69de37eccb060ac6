// Says in words which tensor was tapped: a finger has no hover.
const [index] = source.selected.indices
const {data} = source
const grouped = (value) => Math.round(value).toLocaleString("en-US")
const more = told.map(([title, column]) => `, ${title} ${data[column][index]}`)
target.text = index === undefined ? "" :
  `${data.name[index]}: size ${data.size_text[index]}, ` +
  `steps ${grouped(data.start[index])} to ${grouped(data.end[index])}, ` +
  `offset ${grouped(data.offset[index])} B${more.join("")}`
