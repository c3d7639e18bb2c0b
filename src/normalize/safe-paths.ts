/**
 * Paths within a record, as problems and drift are counted by them and logs show them.
 *
 * Invariant: below a field of the record only names that some stream declares remain; any other name may be a key of
 * arbitrary JSON: it becomes `*`, and the path ends there. Records embed others, so the names of all streams count.
 */
import { ALL_STREAMS } from '../streams/catalogue.ts'

const NAMES: ReadonlySet<string> = new Set([
  ...['id', 'uid', 'name', 'label', 'text', 'text_value', 'value', 'type', 'status', '*'],
  ...ALL_STREAMS.flatMap(({ safeNames = [] }) => safeNames),
])

const FREE_MAPS: ReadonlyMap<string, RegExp> = new Map(
  ALL_STREAMS.flatMap(({ freeMaps = {} }) => Object.entries(freeMaps)).map(([field, names]) => [
    field,
    new RegExp(`(^|\\.)${field}\\..*?(${names.map((name) => `\\.${name}`).join('|')}|)$`, 's'),
  ]),
)

const OWN_RULES = ALL_STREAMS.flatMap(({ safePath }) => (safePath === undefined ? [] : [safePath]))

/** A path without array positions and without names that may be data: `patient_tags[].name`, `input_fields.*.page`. */
export function withoutPositions(path: string): string {
  return withoutData(path).replace(/\[\d+\]/g, '[]')
}

function withoutData(path: string): string {
  for (const safePath of OWN_RULES) {
    const safe = safePath(path)
    if (safe !== null) return safe
  }
  let ours = path
  for (const [map, below] of FREE_MAPS) ours = ours.replace(below, `$1${map}.*$2`)
  return withoutForeignNames(ours)
}

/** `path` starts with a known field of the record. */
function withoutForeignNames(path: string): string {
  const [field, ...below] = path.split('.')
  const foreign = below.findIndex((name) => !NAMES.has(name.replace(/(?:\[\d*\])+$/, '')))
  const known = foreign < 0 ? below : [...below.slice(0, foreign), '*']
  return [field, ...known].join('.')
}
