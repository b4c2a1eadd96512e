// For Node, which runs Playwright's driver: Firefox ESR does not know one command of WebDriver BiDi that Playwright sends for each
// context, the one that emulates dark mode. In its place goes a command without effect.
const Module = require("module"), compile = Module.prototype._compile;
Module.prototype._compile = function (source, file) {
  const bundle = file.endsWith("coreBundle.js");
  return compile.call(this, bundle ? source.replaceAll('"emulation.setMediaFeaturesOverride"', '"session.status"') : source, file);
};
