/**
 * The columns of a file for `patients upload`, checked and renamed before anything is sent.
 *
 * Invariant: only the header changes; every row stays as it is, byte for byte. A header may be a row about a person, so
 * its names are results, and are in no error.
 */
import { readFileSync } from 'node:fs'
import { parse } from 'csv-parse/sync'
import { stringify } from 'csv-stringify/sync'
import { z } from 'zod'
import { UsageError } from '../../core/errors.ts'
import { PERSONS } from '../../streams/catalogue.ts'

/** Required by the service (specification, section 4.1). */
const REQUIRED = ['first_name', 'last_name']
const CONTACT = [
  'first_name',
  'last_name',
  'phone_number',
  'relationship',
  'address',
  'address2',
  'city',
  'state',
  'zipcode',
]
const KNOWN: ReadonlySet<string> = new Set([
  ...PERSONS.columns.map(({ name }) => name),
  ...['provider', ...CONTACT.map((name) => `emergency_${name}`)],
])

export interface Upload {
  readonly bytes: Uint8Array
  readonly missing: readonly string[]
  /** The specification names some columns only, so the service may know these. */
  readonly unknown: readonly string[]
}

/** `mapPath` names a JSON file: the column of the file to the column of the service. */
export function readColumns(bytes: Uint8Array, mapPath: string | undefined): Upload {
  const header = headerOf(bytes)
  const map = mapPath === undefined ? {} : readMap(mapPath)
  const names = (header?.names ?? []).map((name) => (Object.hasOwn(map, name) ? map[name]! : name))
  const stray = Object.keys(map).filter((name) => !header?.names.includes(name)).length
  if (stray > 0)
    throw new UsageError(
      `--map: FILE lacks ${stray} of its columns`,
      'correct their names',
      '--map',
      'definition_invalid',
    )
  return {
    bytes:
      mapPath === undefined || header === null
        ? bytes
        : Buffer.concat([Buffer.from(stringify([names])), bytes.subarray(header.end)]),
    missing: REQUIRED.filter((name) => !names.includes(name)),
    unknown: names.filter((name) => !KNOWN.has(name)),
  }
}

/** Null for a file without a readable first line; the service judges it. */
function headerOf(bytes: Uint8Array): { names: readonly string[]; end: number } | null {
  const options = {
    ...{ to: 1, info: true, bom: true, trim: true, relax_quotes: true, skip_empty_lines: true },
    record_delimiter: ['\r\n', '\n', '\r'],
  }
  try {
    const [first] = parse(Buffer.from(bytes), options) as unknown as [
      { record: string[]; info: { bytes: number } } | undefined,
    ]
    return first === undefined ? null : { names: first.record, end: first.info.bytes }
  } catch {
    return null
  }
}

function readMap(path: string): Readonly<Record<string, string>> {
  const wrong = (what: string) =>
    new UsageError(
      `--map ${what}`,
      'write {"column of the file": "first_name", …}',
      '--map',
      'definition_invalid',
    )
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    throw wrong(`cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown'})`)
  }
  try {
    return z.record(z.string(), z.string().min(1)).parse(JSON.parse(text))
  } catch {
    throw wrong('is not a JSON object of names')
  }
}
