// The import rules of the project: imports run one way (see docs/architecture.md).
// core ← api ← streams; core ← warehouse; all of them ← load ← extract, ingest ← operate ← cli; the emulator stands apart.
const below = {
  core: [],
  api: ['core'],
  streams: ['core', 'api'],
  warehouse: ['core'],
  load: ['core', 'streams', 'warehouse'],
  extract: ['core', 'api', 'streams', 'warehouse', 'load'],
  ingest: ['core', 'api', 'streams', 'warehouse', 'load'],
  operate: ['core', 'api', 'streams', 'warehouse', 'load', 'extract', 'ingest', 'emulator'],
}

const rules = Object.entries(below).map(([from, to]) => ({
  name: `${from}-imports-only-what-is-below-it`,
  severity: 'error',
  from: { path: `^src/${from}/` },
  to: { path: '^src/', pathNot: [`^src/${from}/`, ...to.map((name) => `^src/${name}/`)] },
}))

module.exports = {
  forbidden: [
    ...rules,
    {
      name: 'emulator-stands-apart',
      comment: 'The emulator has its own record of the API; sharing code would let one mistake hide another.',
      severity: 'error',
      from: { path: '^src/emulator/' },
      to: { path: '^src/', pathNot: ['^src/emulator/', '^src/core/signature\\.ts$'] },
    },
    { name: 'no-cycles', severity: 'error', from: { path: '^src/' }, to: { circular: true } },
    { name: 'no-unresolved', severity: 'error', from: { path: '^src/' }, to: { couldNotResolve: true } },
    {
      name: 'no-development-packages-at-run-time',
      severity: 'error',
      from: { path: '^src/' },
      to: { dependencyTypes: ['npm-dev'] },
    },
  ],
  options: {
    parser: 'swc',
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
  },
}
