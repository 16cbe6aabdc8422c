__turbopack_load_page_chunks__("/hardware", [
  "static/chunks/1f_8q6fjgu4l5.js",
  "static/chunks/23km3vn0pk16a.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])
