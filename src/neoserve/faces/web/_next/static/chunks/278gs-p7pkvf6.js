__turbopack_load_page_chunks__("/campaign", [
  "static/chunks/3pfw6llw9jzya.js",
  "static/chunks/0g7cspwk3tqpx.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])
