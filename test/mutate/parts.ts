/**
 * The mutated code, part by part, and the tests that must catch mutants: none of them needs a Postgres.
 *
 * A part has groups, each a run of its own: a mutant of a module constant is tried against all tests of its group, so
 * these are the unit tests of its files and no others.
 */

export interface Group {
  /** Mutated files, as globs; those that begin with `!` are excluded. */
  readonly mutate: readonly string[]
  readonly tests: readonly string[]
}

export interface Part {
  readonly name: string
  readonly groups: readonly Group[]
}

function testsOf(folder: string, names: readonly string[]): readonly string[] {
  return names.map((name) => `test/${folder}/${name}.test.ts`)
}

function filesOf(folder: string, names: readonly string[]): readonly string[] {
  return names.map((name) => `src/${folder}/${name}.ts`)
}

/** A folder of the emulator, with tests of it: those that are slow or start a process are not among them. */
function emulated(mutate: readonly string[], names: readonly string[]): Group {
  return { mutate: mutate.map((path) => `src/emulator/${path}`), tests: testsOf('emulator', names) }
}

/** Files with the tests of the same paths. */
function mirrored(folder: string, names: readonly string[]): Group {
  return { mutate: filesOf(folder, names), tests: testsOf(folder, names) }
}

const OF_STREAMS = testsOf('streams', [
  ...['rows', 'mapping', 'answers', 'aliases', 'catalogue', 'packet-responses', 'subjects'],
  ...['webhook-configs', 'webhook-deliveries'],
  ...['parts/addresses', 'parts/cells', 'parts/response-cleansing', 'parts/typed-cells'],
])

export const PARTS: readonly Part[] = [
  {
    name: 'core',
    groups: [
      mirrored('core', ['errors', 'fair-queue', 'identifiers', 'signature', 'which-team']),
      { mutate: filesOf('core', ['clock']), tests: testsOf('core', ['clock', 'deadline', 'notifier']) },
      mirrored('core', ['json']),
      mirrored('core', ['canonical']),
      mirrored('core', ['envelope', 'time']),
      mirrored('core', ['peers', 'raw-entries']),
    ],
  },
  {
    name: 'streams',
    groups: [
      { mutate: ['src/streams/*.ts', '!src/streams/diagram.ts'], tests: OF_STREAMS },
      { mutate: ['src/streams/parts/*.ts'], tests: OF_STREAMS },
    ],
  },
  {
    name: 'normalize',
    groups: [
      {
        mutate: ['src/normalize/*.ts'],
        tests: [
          ...testsOf('normalize', [
            'copied-lines',
            'copy-text',
            'lines',
            'map',
            'read-record',
            'split-lines',
            'storable',
            'text-buffer',
          ]),
          ...testsOf('streams', ['catalogue', 'mapping', 'rows']),
        ],
      },
    ],
  },
  {
    name: 'reading',
    groups: [
      {
        mutate: filesOf('extract', ['slice-note', 'reading/window']),
        tests: testsOf('extract', ['slice-note', 'scan/checkpoint', 'reading/window']),
      },
      {
        mutate: filesOf('load/exports', [
          ...['cell-text', 'export-text', 'file-lines', 'file-problems', 'json-string'],
        ]),
        tests: [
          ...testsOf('extract', ['reading/csv']),
          ...testsOf('load/exports', [
            'cell-text',
            'export-text',
            'file-lines',
            'file-problems',
            'json-string',
          ]),
        ],
      },
    ],
  },
  {
    name: 'config',
    groups: [
      { mutate: ['src/config/*.ts'], tests: ['test/config/*.test.ts', 'test/operate/alerts/config.test.ts'] },
    ],
  },
  {
    name: 'api',
    groups: [
      { mutate: ['src/api/budget/*.ts'], tests: ['test/api/budget/*.test.ts', 'test/api/client.test.ts'] },
      {
        mutate: [
          'src/api/*.ts',
          'src/api/http/*.ts',
          '!src/api/http/{backoff,failures,query}.ts',
          '!src/api/paths.ts',
        ],
        tests: ['test/api/*.test.ts', 'test/api/http/*.test.ts'],
      },
      { mutate: ['src/api/paging/*.ts'], tests: ['test/api/paging/*.test.ts'] },
      { mutate: ['src/api/resources/*.ts'], tests: ['test/api/resources/*.test.ts'] },
      {
        mutate: filesOf('api', ['http/backoff', 'http/failures', 'paths']),
        tests: testsOf('api', ['http/backoff', 'http/failures', 'http/retry-after', 'paths', 'query']),
      },
    ],
  },
  {
    name: 'emulator',
    groups: [
      emulated(
        ['world/**/*.ts'],
        [
          ...['clinic', 'find-responses', 'ids', 'rules', 'same-bytes', 'seeded'].map(
            (name) => `world/${name}`,
          ),
          'webhooks/recorded-events',
        ],
      ),
      emulated(
        ['shapes/*.ts'],
        ['notations', 'pages', 'records', 'responses'].map((name) => `shapes/${name}`),
      ),
      emulated(
        ['http/**/*.ts'],
        [
          ...[
            'access',
            'describe-declared',
            'error-fields',
            'lists',
            'paging',
            'request-log',
            'throttle',
          ].map((name) => `http/${name}`),
          ...['exports', 'exports-cells', 'exports-rows', 'exports-shapes', 'message-rules', 'messages'].map(
            (name) => `http/resources/${name}`,
          ),
          ...['patients', 'responses', 'show', 'upload-files'].map((name) => `http/resources/${name}`),
          'recorded-answers',
        ],
      ),
      emulated(
        ['webhooks/*.ts'],
        ['channel', 'configs', 'delivery', 'recorded-events', 'records', 'retries', 'target'].map(
          (name) => `webhooks/${name}`,
        ),
      ),
      emulated(
        ['imports/*.ts'],
        ['fhir-answers', 'questionnaire-items', 'read-imports', 'read-text', 'survey'].map(
          (name) => `imports/${name}`,
        ),
      ),
      emulated(
        ['*.ts'],
        ['control', 'fault-defaults', 'faults', 'http/throttle', 'options', 'running', 'timeline'],
      ),
    ],
  },
  {
    name: 'commands',
    groups: [
      mirrored('commands', ['options', 'printable', 'reader']),
      mirrored('commands', [
        ...['inspect/verify-report', 'manage/classify-file', 'manage/dead-letters-text'],
        ...['run/backfill-report', 'run/progress', 'webhooks/fields'],
      ]),
      mirrored('console', ['format', 'sessions']),
      mirrored('ingest/http', ['body', 'connections']),
    ],
  },
]
