/** Which events share a statement, and how each ends when a statement fails, is late, or the warehouse is away. */
import { beforeEach, expect, test, vi } from 'vitest'
import { IntakeError } from '../../../src/core/errors.ts'
import { type InboxEvent, readEvent, type StoreOutcome } from '../../../src/ingest/inbox/event.ts'
import { type Inbox, openInbox } from '../../../src/ingest/inbox/inbox.ts'
import { openNotices } from '../../../src/ingest/inbox/notices.ts'
import { openWriter } from '../../../src/ingest/inbox/writer.ts'
import { timedOut } from '../../../src/warehouse/bounded-queries.ts'
import { eventOf, openRecorder, type Recorded } from '../support/ingest.ts'

vi.mock('../../../src/ingest/inbox/writer.ts')
vi.mock('../../../src/ingest/inbox/notices.ts')

interface Statement {
  readonly writer: number
  readonly events: readonly InboxEvent[]
  /** Every event has this outcome, unless it is in the map; or the statement fails. */
  end(outcome: StoreOutcome | Error, others?: ReadonlyMap<string, StoreOutcome>): Promise<void>
}

let now: number
let looks: (() => void)[]
let steps: string[]
let statements: Statement[]
let changes: ((failure: IntakeError | null) => void)[]
let connected: boolean[]
let recorded: Recorded
let inbox: Inbox
let ended: Record<string, string>

const turns = async () => {
  for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve))
}

beforeEach(async () => {
  ;[now, looks, steps, statements, changes, ended] = [0, [], [], [], [], {}]
  connected = [true, true]
  vi.mocked(openNotices).mockReturnValue({
    send: () => void steps.push('notice'),
    close: () => turns().then(() => void steps.push('close notices')),
  })
  vi.mocked(openWriter).mockImplementation(async ({ onChange }) => {
    const writer = changes.push(onChange) - 1
    let isBusy = false
    return {
      get isConnected() {
        return connected[writer]!
      },
      get isFree() {
        return connected[writer]! && !isBusy
      },
      store(events) {
        isBusy = true
        return new Promise((resolve, reject) => {
          statements.push({
            ...{ writer, events },
            async end(outcome, others = new Map()) {
              isBusy = false
              if (outcome instanceof Error) reject(outcome)
              else resolve(new Map(events.map((each) => [each, others.get(each.eventId) ?? outcome])))
              await turns()
            },
          })
        })
      },
      renew: () => void steps.push(`renew ${writer}`),
      expire: (at) => void steps.push(`expire ${writer} at ${at / 1000}`),
      close: async () => void steps.push(`close ${writer}`),
    }
  })
  const { recorded: all, watch, logger } = openRecorder()
  recorded = all
  inbox = await openInbox({
    ...{ url: 'postgres://here', logger, watch, onStored: () => void steps.push('wake') },
    clock: { now: () => now, sleep: () => new Promise((resolve) => void looks.push(resolve)) },
    limits: { storeMs: 1_600, statementMs: 1_400 },
  })
})

/** Stores events that arrive in one turn. */
async function arrive(...ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    const end = (outcome: string) => Object.assign(ended, { [id]: outcome })
    inbox.store(readEvent(1, eventOf({ id }))).then(end, ({ message }) => end(message))
  }
  await turns()
}
/** The events of each statement since the last call, with its writer. */
const sent = () =>
  statements.splice(0).map((statement) => {
    const ids = statement.events.map(({ eventId }) => eventId).join('')
    return Object.assign(statement, { text: `${statement.writer}: ${ids}` })
  })
const textsOf = (all: readonly { readonly text: string }[]) => all.map(({ text }) => text)
/** Looks at deadlines, so many milliseconds later. */
async function look(milliseconds: number): Promise<void> {
  now += milliseconds * 1000
  for (const wake of looks.splice(0)) wake()
  await turns()
}
const said = () =>
  recorded.logged.splice(0).map((line) => {
    const { level, code, msg } = JSON.parse(line)
    return [level, code, msg]
  })
const AGAIN = new IntakeError('not now', { code: 'timeout', verdict: 'retry' })
const NOT_STORED = 'events could not be stored; they are tried again, or answered 503'
const refused = (state: string) => Object.assign(new Error('no'), { code: state })

test('events that arrive together share a statement; the next waits until it is as large, or until that one is done', async () => {
  await arrive('a', 'b', 'c')
  const [first, ...none] = sent()
  expect([first!.text, none]).toEqual(['0: abc', []])
  await arrive('d', 'e')
  expect(sent()).toEqual([])
  await arrive('f')
  const [second] = sent()
  expect(second!.text).toBe('1: def')
  await arrive('g', 'h', 'i', 'j', 'k', 'l')
  expect(sent()).toEqual([])
  now += 250_000
  await second!.end('stored', new Map([['e', 'duplicate']]))
  expect(textsOf(sent())).toEqual(['1: ghijkl'])
  expect(ended).toEqual({ d: 'stored', e: 'duplicate', f: 'stored' })
  expect(recorded).toMatchObject({ committed: [3], seconds: [0.25] })
  expect(steps).toEqual(['notice', 'wake'])
  await first!.end('duplicate')
  expect(ended).toMatchObject({ a: 'duplicate', b: 'duplicate', c: 'duplicate' })
  expect([steps, recorded.committed]).toEqual([
    ['notice', 'wake'],
    [3, 3],
  ])
})

test('a statement that failed for now is sent again before events that arrived after it, and said once', async () => {
  await arrive('a', 'b')
  await arrive('c')
  const [first] = sent()
  await first!.end(AGAIN)
  const [again] = sent()
  expect(again!.text).toBe('0: abc')
  expect(inbox.trouble()).toBe('not now')
  await again!.end(AGAIN)
  const [last] = sent()
  await last!.end('stored')
  expect(ended).toEqual({ a: 'stored', b: 'stored', c: 'stored' })
  expect(said()).toEqual([
    [40, 'timeout', `${NOT_STORED}: not now`],
    [30, undefined, 'events are stored again'],
  ])
  expect([inbox.trouble(), recorded.committed]).toEqual([null, [3]])
})

test('of a statement that the warehouse refuses only the event at fault fails, and nothing is said', async () => {
  await arrive('a', 'b', 'c')
  const texts: string[] = []
  for (const end of [refused('23514'), 'stored', refused('23514'), refused('23514'), 'stored'] as const) {
    const [statement] = sent()
    texts.push(statement!.text)
    await statement!.end(end)
  }
  expect(texts).toEqual(['0: abc', '0: a', '0: bc', '0: b', '0: c'])
  expect(ended).toEqual({ a: 'stored', b: expect.not.stringContaining('stored'), c: 'stored' })
  expect([said(), inbox.trouble()]).toEqual([[], null])
})

test('a half whose connection was lost is stored by the other one, and what waits for one by the first that is back', async () => {
  await arrive('a', 'b')
  await sent()[0]!.end(refused('23514'))
  connected[0] = false
  await sent()[0]!.end('stored')
  expect(sent()[0]!.text).toBe('1: b')
  connected[1] = false
  await arrive('c')
  expect([sent(), looks.length]).toEqual([[], 1])
  connected[0] = true
  changes[0]!(null)
  await turns()
  expect(sent()[0]!.text).toBe('0: c')
})

test('while no connection is left events fail at once, and the queued ones with them, until one is back', async () => {
  await arrive('a')
  await arrive('b', 'c')
  const [first, second] = sent()
  expect([first!.text, second!.text]).toEqual(['0: a', '1: bc'])
  await arrive('d')
  const away = new IntakeError('it is away', { code: 'warehouse_unreachable', verdict: 'retry' })
  connected[0] = false
  changes[0]!(away)
  expect([inbox.trouble(), steps]).toEqual([null, []])
  connected[1] = false
  for (const onChange of changes) onChange(away)
  await arrive('e')
  expect(ended).toEqual({ d: 'it is away', e: 'it is away' })
  expect(steps).toEqual(['renew 0', 'renew 1', 'renew 0', 'renew 1'])
  await first!.end(AGAIN)
  expect([ended.a, inbox.trouble()]).toEqual(['not now', 'it is away'])
  connected[1] = true
  changes[1]!(null)
  expect(inbox.trouble()).toBe('not now')
  await second!.end('stored')
  expect(ended.c).toBe('stored')
  expect(said()).toEqual([
    [40, 'warehouse_unreachable', 'events are answered 503: it is away'],
    [30, undefined, 'the warehouse is back: events are stored again'],
    [30, undefined, 'events are stored again'],
  ])
})

test('an answer to a statement shows that the warehouse is back, which is said once', async () => {
  await arrive('a')
  await sent()[0]!.end(AGAIN)
  changes[1]!(timedOut())
  expect(inbox.trouble()).toBe('the warehouse did not answer in time')
  await sent()[0]!.end('stored')
  expect([inbox.trouble(), ended.a, said().length]).toEqual([null, 'stored', 3])
})

test('an event fails 1.6 seconds after it arrived, and its statement is watched until that ends', async () => {
  await arrive('a')
  now += 200_000
  await sent()[0]!.end(AGAIN)
  const [second] = sent()
  await look(1_399)
  expect([ended, steps.splice(0)]).toEqual([{}, ['expire 0 at 1599', 'expire 1 at 1599']])
  await look(1)
  expect(ended).toEqual({ a: 'the warehouse did not answer in time' })
  steps.length = 0
  await look(50)
  expect(steps.splice(0)).toEqual(['expire 0 at 1650', 'expire 1 at 1650'])
  await second!.end(timedOut())
  await look(50)
  expect([sent(), looks.length]).toEqual([[], 0])
  await arrive('b')
  expect([sent()[0]!.text, looks.length]).toEqual(['0: b', 1])
})

test('closing waits for the events that wait, then ends the connections, and then the notices', async () => {
  await arrive('a')
  const closing = inbox.close()
  await look(50)
  expect(steps).toEqual(['expire 0 at 50', 'expire 1 at 50'])
  steps.length = 0
  await sent()[0]!.end('stored')
  expect(steps).toEqual(['notice', 'wake'])
  await look(50)
  await closing
  expect(steps.slice(4)).toEqual(['close 0', 'close 1', 'close notices'])
})
