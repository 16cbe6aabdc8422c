__turbopack_load_page_chunks__("/", [
  "static/chunks/0g0adbl2or1of.js",
  "static/chunks/0g7cspwk3tqpx.js",
  "static/chunks/1iv0ieti9zsx6.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])
