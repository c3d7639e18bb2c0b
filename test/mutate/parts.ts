/** The mutated code, part by part, and the tests that must catch mutants: none of them needs a Postgres. */

export interface Part {
  readonly name: string
  /** Mutated files, as globs; those that begin with `!` are excluded. */
  readonly mutate: readonly string[]
  readonly tests: readonly string[]
}

function of(folder: string, names: readonly string[]): readonly string[] {
  return names.map((name) => `test/${folder}/${name}.test.ts`)
}

export const PARTS: readonly Part[] = [
  {
    name: 'core',
    mutate: ['src/core/*.ts'],
    tests: of('core', [
      ...[
        'notifier',
        'canonical',
        'clock',
        'deadline',
        'envelope',
        'errors',
        'fair-queue',
        'identifiers',
        'json',
      ],
      ...['secret-box', 'signature', 'storable', 'time'],
    ]),
  },
  {
    name: 'streams',
    mutate: ['src/streams/**/*.ts', 'src/normalize/map.ts'],
    tests: of('streams', ['answers', 'mapping', 'rows']),
  },
  {
    name: 'reading',
    mutate: [
      ...['checkpoint', 'slice-note', 'scan/window'].map((name) => `src/extract/${name}.ts`),
      ...['cell-text', 'csv-records', 'export-text', 'json-string', 'leading-columns', 'utf8-watch'].map(
        (name) => `src/load/exports/${name}.ts`,
      ),
    ],
    tests: of('extract', ['checkpoint', 'exports-csv', 'slice-note', 'scan/window']),
  },
  { name: 'api', mutate: ['src/api/**/*.ts'], tests: ['test/api/**/*.test.ts'] },
]

export function partNamed(name: string | undefined): Part {
  const part = PARTS.find((each) => each.name === name)
  if (part === undefined) throw new Error(`no part of the mutated code is called ${name}`)
  return part
}
