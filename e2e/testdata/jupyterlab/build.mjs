// Bundles JupyterLab's application with the extensions that package.json names, as JupyterLab's own build does, into the folder of
// the first argument: lab.js, lab.css, theme.css and what they load; and settings.json, the settings of each extension as JupyterLab's
// server has them. In package.json, tslib stands for the packages that draw Mermaid's diagrams: they are larger than all others.
import { build } from 'esbuild';
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const here = import.meta.dirname;
const [outdir] = process.argv.slice(2);
const read = (...path) => JSON.parse(readFileSync(join(...path), 'utf8'));
const { dependencies, devDependencies } = read(here, 'package.json');

const imports = [], extensions = [], settings = {};
for (const name of Object.keys({ ...dependencies, ...devDependencies })) {
  const folder = join(here, 'node_modules', name);
  const { version, jupyterlab, styleModule } = read(folder, 'package.json');
  if (!jupyterlab?.extension) continue;
  const main = jupyterlab.extension === true ? name : `${name}/${jupyterlab.extension}`;
  imports.push(`import extension${extensions.length} from '${main}';`);
  if (styleModule) imports.push(`import '${name}/${styleModule}';`);
  extensions.push(`extension${extensions.length}`);
  const schemas = join(folder, 'schema');
  for (const file of existsSync(schemas) ? readdirSync(schemas) : []) {
    if (!file.endsWith('.json')) continue;
    const id = `${name}:${file.slice(0, -5)}`;
    settings[id] = { id, version, schema: read(schemas, file), raw: '{}', settings: {}, created: null, last_modified: null };
  }
}
writeFileSync(join(outdir, 'settings.json'), JSON.stringify(settings));

const page = `
import { JupyterLab } from '@jupyterlab/application';
import { PageConfig } from '@jupyterlab/coreutils';
import { IConnectionStatus, IServiceManager } from '@jupyterlab/services';
import { PluginRegistry } from '@lumino/coreutils';
import * as controls from '@jupyter-widgets/controls';
${imports.join('\n')}
globalThis.loadControls = (names, then) => then(() => controls);
globalThis.workingFolder = () => '/';
const pluginRegistry = new PluginRegistry();
pluginRegistry.registerPlugins([${extensions}].flat().filter((plugin) => !PageConfig.Extension.isDisabled(plugin.id)));
const none = { matches: [], patterns: [] };
const lab = new JupyterLab({
  pluginRegistry, availablePlugins: [], mimeExtensions: [], disabled: none, deferred: none,
  serviceManager: await pluginRegistry.resolveOptionalService(IServiceManager),
  connectionStatus: await pluginRegistry.resolveOptionalService(IConnectionStatus),
});
await lab.start({ bubblingKeydown: true });
globalThis.jupyterapp = lab;
`;

// A tilde before a package's name in a style means nothing. An SVG is text where JavaScript imports it, and a picture where a style
// refers to it.
const styles = {
  name: 'styles',
  setup(b) {
    b.onResolve({ filter: /^~/ }, ({ path, kind, resolveDir }) => b.resolve(path.slice(1), { kind, resolveDir }));
    b.onResolve({ filter: /\.svg$/ }, ({ kind, path, resolveDir }) => kind === 'url-token' ? { path: join(resolveDir, path), namespace: 'picture' } : null);
    b.onLoad({ filter: /./, namespace: 'picture' }, ({ path }) => ({ contents: readFileSync(path), loader: 'dataurl' }));
  },
};
const common = { bundle: true, outdir, logLevel: 'error', plugins: [styles] };
await build({
  ...common, stdin: { contents: page, resolveDir: here, sourcefile: 'lab.js' }, entryNames: 'lab', format: 'esm', target: 'es2022',
  // require.ensure is Webpack's; the widget manager loads its controls with it. JupyterLab's build gives pages a process, too.
  define: {
    'process.env.NODE_ENV': '"production"', 'process.env': '{}', 'process.cwd': 'workingFolder', global: 'globalThis', 'require.ensure': 'loadControls',
  },
  loader: { '.svg': 'text', '.png': 'dataurl', '.woff': 'file', '.woff2': 'file', '.ttf': 'file', '.eot': 'file' },
});
await build({ ...common, entryPoints: { theme: '@jupyterlab/theme-light-extension/style/theme.css' }, absWorkingDir: here });
