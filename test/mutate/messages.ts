/**
 * A plugin for Stryker: mutants that only reword a message are not made.
 *
 * The wording of messages, hints and reasons is no behaviour, and a test of each text would only repeat it. What code
 * can rely on (codes, verdicts, variables, values that are shown) is mutated.
 */
interface Node {
  readonly type: string
  readonly callee?: { readonly name?: string }
  readonly key?: { readonly name?: string }
}

/** A place in the syntax tree, as Babel gives it. */
interface Place {
  readonly node: Node
  readonly key: string | number | null
  readonly listKey?: string
  readonly parentPath: Place | null
}

const TEXTS = new Set(['StringLiteral', 'TemplateLiteral'])
/** Expressions whose value is one of their parts, or contains it. */
const AROUND = new Set(['ConditionalExpression', 'LogicalExpression', 'TemplateLiteral', 'BinaryExpression'])
const MESSAGES = new Set(['hint', 'what', 'reason', 'message'])
/** The variable that a `UsageError` names is its third argument. */
const LAST_TEXT = 1

function isMessage(text: Place): boolean {
  let place = text
  while (place.parentPath !== null && AROUND.has(place.parentPath.node.type)) {
    // The condition decides, and is no text of a message.
    if (place.key === 'test') return false
    place = place.parentPath
  }
  const holder = place.parentPath?.node
  if (holder?.type === 'ObjectProperty') return place.key === 'value' && MESSAGES.has(holder.key?.name ?? '')
  return (
    holder?.type === 'NewExpression' &&
    place.listKey === 'arguments' &&
    /Error$/.test(holder.callee?.name ?? '') &&
    Number(place.key) <= LAST_TEXT
  )
}

export const strykerPlugins = [
  {
    kind: 'Ignore',
    name: 'messages',
    value: {
      shouldIgnore: (place: Place) =>
        TEXTS.has(place.node.type) && isMessage(place) ? 'it only rewords a message' : undefined,
    },
  },
]
