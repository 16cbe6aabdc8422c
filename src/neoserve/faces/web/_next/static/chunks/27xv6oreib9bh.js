__turbopack_load_page_chunks__("/campaign", [
  "static/chunks/451ko786thik9.js",
  "static/chunks/0g7cspwk3tqpx.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])
