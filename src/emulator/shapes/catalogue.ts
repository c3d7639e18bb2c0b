/**
 * All shapes by name: the alternatives of the page on shapes, each alone, several with a plus between, or `random`.
 *
 * Invariant: `random` is a function of the seed and takes at most one shape of each matter.
 */
import { Draw, keyOf } from '../world/draw.ts'
import { ENVELOPES } from './envelopes.ts'
import { EXPORTS } from './exports.ts'
import { FAILURES } from './failures.ts'
import { FORMS } from './forms.ts'
import { groupBy } from './group.ts'
import { IDS } from './ids.ts'
import { MESSAGES } from './messages.ts'
import { PAGES } from './pages.ts'
import { RECORDS } from './records.ts'
import { REFERENCES } from './references.ts'
import { RESPONSES } from './responses.ts'
import { type Shape, type ShapePart, wear } from './shape.ts'
import { WEBHOOKS } from './webhooks.ts'

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

/** Names that `--shape` takes, `default` and `random` aside, in the order in which several are put on. */
export const SHAPE_NAMES: readonly string[] = Object.keys(PARTS)

/** What a shape does, in one line. */
export function describeShape(name: string): string {
  if (name === 'default') return 'what the service is expected to do'
  if (name === 'random') return 'a mixture that depends on the seed'
  return PARTS[name]?.summary ?? ''
}

/** What a shape is about; of the shapes with one matter, only one can be worn at a time. */
export function matterOf(name: string): string {
  const part = PARTS[name]
  if (part === undefined) throw new RangeError(`no shape is named "${name}"`)
  return part.matter
}

/** The shape of a name, or of several joined by `+`. Throws `RangeError` for a name that there is not. */
export function shapeNamed(spec: string, seed: string): Shape {
  const names = spec === 'random' ? randomNames(seed) : spec.split('+').filter((name) => name !== 'default')
  const unknown = names.find((name) => !Object.hasOwn(PARTS, name))
  if (unknown !== undefined) {
    throw new RangeError(
      `no shape is named "${unknown}"; there are default, random, ${SHAPE_NAMES.join(', ')}`,
    )
  }
  // Parts are put on in the order of the table, whatever the order of their names: some read what others rewrite.
  const ordered = SHAPE_NAMES.filter((name) => names.includes(name))
  return wear(Object.fromEntries(ordered.map((name) => [name, PARTS[name]!])))
}

/** Shapes that take something away for good, or that need the client to be told; not drawn at random. */
const NOT_RANDOM = new Set([
  ...['trailing-slash', 'huge-ids', 'unknown-parameter-refused', 'input-fields-null'],
  ...['deleted-empty', 'deleted-null'],
])

function randomNames(seed: string): string[] {
  const draw = new Draw(keyOf(seed, 'shape'), 0)
  const names = SHAPE_NAMES.filter((name) => !NOT_RANDOM.has(name))
  const matters = groupBy(names, (name) => PARTS[name]!.matter)
  const drawn = [...matters.values()].flatMap((all) => (draw.chance(0.5) ? [draw.pick(all)] : []))
  // A list that is whole has no pages to ask for in another way.
  return drawn.includes('bare-array') ? drawn.filter((name) => PARTS[name]!.matter !== 'paging') : drawn
}
