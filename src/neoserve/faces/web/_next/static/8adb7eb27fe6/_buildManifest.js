self.__BUILD_MANIFEST = {
  "/": [
    "static/chunks/3qk6_dw7m3z5i.js"
  ],
  "/404": [
    "static/chunks/3brqul82kb4md.js"
  ],
  "/_error": [
    "static/chunks/1_il-702jv0po.js"
  ],
  "/agent": [
    "static/chunks/13a4sk2bkvs_n.js"
  ],
  "/campaign": [
    "static/chunks/0e7pg0oqbo_jg.js"
  ],
  "/cost": [
    "static/chunks/32r800b48uxzv.js"
  ],
  "/evidence": [
    "static/chunks/2mub_btltpf2t.js"
  ],
  "/hardware": [
    "static/chunks/07k5zr24nyh-2.js"
  ],
  "/ledger": [
    "static/chunks/3kt-rm2s870bj.js"
  ],
  "/plan": [
    "static/chunks/17btpsnwuzy0g.js"
  ],
  "__rewrites": {
    "afterFiles": [],
    "beforeFiles": [],
    "fallback": []
  },
  "sortedPages": [
    "/",
    "/404",
    "/_app",
    "/_error",
    "/agent",
    "/campaign",
    "/cost",
    "/evidence",
    "/hardware",
    "/ledger",
    "/plan"
  ]
};self.__TURBOPACK_PAGE_BOOTSTRAP = {"/404":{"otherChunks":["static/chunks/37poi6p2m-f2h.js"],"runtimeModuleIds":[783,8458]},"/agent":{"otherChunks":["static/chunks/3oszr2gzo6pt3.js"],"runtimeModuleIds":[783,5579]},"/campaign":{"otherChunks":["static/chunks/3_hywfuy9y1o4.js","static/chunks/0re77bklofj_a.js"],"runtimeModuleIds":[783,7102]},"/cost":{"otherChunks":["static/chunks/0jyh2gnw1pzf8.js","static/chunks/0re77bklofj_a.js","static/chunks/0uhh391biip0p.js"],"runtimeModuleIds":[783,2868]},"/evidence":{"otherChunks":["static/chunks/3jbzn3q1h5p09.js","static/chunks/0re77bklofj_a.js"],"runtimeModuleIds":[783,5284]},"/hardware":{"otherChunks":["static/chunks/2xqjty807wt4d.js"],"runtimeModuleIds":[783,1394]},"/":{"otherChunks":["static/chunks/0j88_qhlfbom-.js","static/chunks/0re77bklofj_a.js","static/chunks/2kj4rwhg-k5bb.js"],"runtimeModuleIds":[783,9675]},"/ledger":{"otherChunks":["static/chunks/2iod-0jz57z_a.js"],"runtimeModuleIds":[783,5061]},"/plan":{"otherChunks":["static/chunks/0b39y9r1mg15a.js"],"runtimeModuleIds":[783,2292]},"/_app":{"otherChunks":["static/chunks/3p4h8lrci8pz8.js","static/chunks/38k7p0oxw2d-1.js","static/chunks/418mj0qxe5an5.js","static/chunks/3gtf5ulqfqx0t.css"],"runtimeModuleIds":[783,8146]},"/_error":{"otherChunks":["static/chunks/306euk3hkl2h4.js"],"runtimeModuleIds":[783,184]}};self.__TURBOPACK_CHUNK_LOADING_GLOBAL = "TURBOPACK";self.__BUILD_MANIFEST_CB && self.__BUILD_MANIFEST_CB()