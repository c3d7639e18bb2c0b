/**
 * All shapes by name. A specification is one name, several joined by `+`, or `random`.
 *
 * Invariant: `random` is a function of the seed and takes at most one shape of each matter.
 */
import { Draw, keyOf } from '../world/draw.ts'
import { FORMS, MESSAGES, WEBHOOKS } from './forms.ts'
import { ENVELOPES, FAILURES, PAGES } from './pages.ts'
import { IDS, RECORDS, REFERENCES } from './records.ts'
import { EXPORTS, RESPONSES } from './responses.ts'
import { combine, groupBy, type Shape, type ShapePart } from './shape.ts'

const PARTS: Readonly<Record<string, ShapePart>> = {
  ...ENVELOPES,
  ...PAGES,
  ...RECORDS,
  ...FORMS,
  ...MESSAGES,
  ...RESPONSES,
  ...REFERENCES,
  ...EXPORTS,
  ...FAILURES,
  ...IDS,
  ...WEBHOOKS,
}

/** Names that `--shape` takes, `default` and `random` aside, in the order in which they are applied. */
export const SHAPE_NAMES: readonly string[] = Object.keys(PARTS)

/** One-line description of a shape. */
export function describeShape(name: string): string {
  if (name === 'default') return 'what the service is expected to do'
  if (name === 'random') return 'a mixture that depends on the seed'
  return PARTS[name]?.summary ?? ''
}

/** The subject of a shape; of the shapes with the same matter, only one can apply at a time. */
export function matterOf(name: string): string {
  const part = PARTS[name]
  if (part === undefined) throw new RangeError(`no shape is named "${name}"`)
  return part.matter
}

/** The shape of a name, or of several joined by `+`. Throws `RangeError` for an unknown name. */
export function shapeNamed(spec: string, seed: string): Shape {
  const names = spec === 'random' ? randomNames(seed) : spec.split('+').filter((name) => name !== 'default')
  const unknown = names.find((name) => !Object.hasOwn(PARTS, name))
  if (unknown !== undefined) {
    throw new RangeError(
      `no shape is named "${unknown}"; there are default, random, ${SHAPE_NAMES.join(', ')}`,
    )
  }
  // Parts apply in the order of the table, whatever the order of the names: some read fields that others rewrite.
  const ordered = SHAPE_NAMES.filter((name) => names.includes(name))
  return combine(Object.fromEntries(ordered.map((name) => [name, PARTS[name]!])))
}

/** Not drawn at random: shapes that remove information, or that a client must be configured for. */
const NOT_RANDOM = new Set([
  ...['trailing-slash', 'huge-ids', 'unknown-parameter-refused', 'input-fields-null'],
  ...['deleted-empty', 'deleted-null'],
])

function randomNames(seed: string): string[] {
  const draw = new Draw(keyOf(seed, 'shape'), 0)
  const names = SHAPE_NAMES.filter((name) => !NOT_RANDOM.has(name))
  const matters = groupBy(names, (name) => PARTS[name]!.matter)
  const drawn = [...matters.values()].flatMap((all) => (draw.chance(0.5) ? [draw.pick(all)] : []))
  // A complete list has no pages, so no other way of paging applies.
  return drawn.includes('bare-array') ? drawn.filter((name) => PARTS[name]!.matter !== 'paging') : drawn
}
