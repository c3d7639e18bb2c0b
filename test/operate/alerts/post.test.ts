/** One post of alerts: what it contains, which answers accept it, and a slow receiver. */
import { expect, test } from 'vitest'
import { type AlertRow, statusToPost } from '../../../src/operate/alerts/alert-rows.ts'
import { post } from '../../../src/operate/alerts/post.ts'
import { collecting } from '../../support/garbage.ts'
import { openReceiver } from './receiver.ts'

const never = () => new AbortController().signal

test('a receiver that never answers is abandoned after its timeout, with an error that names it', async () => {
  await using receiver = await openReceiver()
  receiver.answer('hang')
  using _ = collecting()
  const place = { url: receiver.url, secret: null }
  const posting = post(place, [], { now: new Date(0), signal: never(), version: '1', limitMs: 1_500 })
  await expect(posting).rejects.toMatchObject({
    code: 'alerts_refused',
    message: 'INTAKE_ALERT_URL did not accept the alerts: no response within 1.5 seconds',
  })
  expect(receiver.posts).toHaveLength(1)
})

test('stopping a post does not wait for its receiver', async () => {
  await using receiver = await openReceiver()
  receiver.answer('hang')
  const stop = new AbortController()
  const place = { url: receiver.url, secret: null }
  const options = { now: new Date(0), signal: stop.signal, version: '1', limitMs: 600_000 }
  const posting = expect(post(place, [], options)).rejects.toMatchObject({ code: 'alerts_refused' })
  await expect.poll(() => receiver.posts.length, { timeout: 60_000 }).toBe(1)
  stop.abort()
  await posting
})

test('a post says all of each alert, and in one line what streams of a team have in common', async () => {
  await using receiver = await openReceiver()
  const row = (more: Partial<AlertRow>): AlertRow => ({
    ...{
      team: 'north',
      cause: 'dead_letters',
      stream: 'forms',
      id: 'i',
      mark: null,
      figures: { waiting: 2 },
    },
    ...{ raised_at: '2026-01-01T01:00:00Z', cleared_at: null, posted: null, posted_mark: null },
    ...{ attempts: 0, is_due: true, ...more },
  })
  const rows = [
    row({}),
    row({ stream: 'packets', id: 'j', figures: { waiting: 1 } }),
    row({ stream: 'patients', id: 'k' }),
    row({ team: 'south', id: 'l' }),
    row({ cause: 'inbox_old', stream: '', id: 'm', figures: { pending: 1, minutes: 6 } }),
    row({ stream: 'messages', id: 'n', posted: 'raised', cleared_at: '2026-01-01T02:00:00Z' }),
    row({ cause: 'drift', id: 'o', mark: 3, posted_mark: 2, posted: 'raised', figures: { fields: 3 } }),
  ]
  await post({ url: receiver.url, secret: null }, rows, { now: new Date(5), signal: never(), version: '1' })
  const { document } = receiver.posts[0]!
  const hint = 'intake-sync dead-letters list'
  const drain = 'check that a serve that drains is running: intake-sync status, /readyz'
  const extra = 'intake-sync status; their values are in _extra, their names in intake_ops.drift'
  const alert = (at: number, text: string, help: string | null, more: object = {}) => {
    const { id, cause, team, stream, figures, raised_at, cleared_at } = rows[at]!
    return {
      ...{ id, status: 'raised', cause, team, stream, raised_at, cleared_at, figures, text },
      ...{ hint: help, mend: help, ...more },
    }
  }
  expect(document).toEqual({
    ...{ version: 1, sent_at: '1970-01-01T00:00:00.005Z' },
    text: [
      `raised: north (forms, patients): 2 dead letters waiting — ${hint}`,
      `raised: north (packets): 1 dead letter waiting — ${hint}`,
      `raised: south (forms): 2 dead letters waiting — ${hint}`,
      `raised: north: 1 event in the inbox, the oldest for 6 minutes — ${drain}`,
      'cleared: north (messages): no dead letter is waiting',
      `raised: north (forms): the service sent 3 unknown fields or types — ${extra}`,
    ].join('\n'),
    alerts: [
      alert(0, '2 dead letters waiting', hint),
      alert(1, '1 dead letter waiting', hint),
      alert(2, '2 dead letters waiting', hint),
      alert(3, '2 dead letters waiting', hint),
      alert(4, '1 event in the inbox, the oldest for 6 minutes', drain, { stream: null }),
      alert(5, 'no dead letter is waiting', null, { status: 'cleared' }),
      alert(6, 'the service sent 3 unknown fields or types', extra),
    ],
  })
})

test('any answer of 200 to 299 accepts a post, and no other does', async () => {
  await using receiver = await openReceiver()
  const place = { url: receiver.url, secret: null }
  for (const status of [200, 202, 299, 300, 301, 304, 400, 404, 500]) {
    receiver.answer(status, { location: receiver.url })
    const posting = post(place, [], { now: new Date(0), signal: never(), version: '1' })
    if (status < 300) await posting
    else
      await expect(posting).rejects.toMatchObject({
        ...{ code: 'alerts_refused', verdict: 'retry' },
        message: `INTAKE_ALERT_URL did not accept the alerts: it responded ${status}`,
        hint: 'check INTAKE_ALERT_URL, and that its receiver is running',
      })
  }
  expect(receiver.posts).toHaveLength(9)
})

const ROW: AlertRow = {
  ...{ team: 'north', cause: 'drift', stream: 'forms', id: 'i', figures: {}, raised_at: '' },
  ...{ mark: null, cleared_at: null, posted: null, posted_mark: null, attempts: 0, is_due: true },
}

test('a receiver gets an alert that it does not know, that has grown, or that ended after it got it', () => {
  const status = (of: Partial<AlertRow>) => statusToPost({ ...ROW, ...of })
  const cases: readonly (readonly [Partial<AlertRow>, raised: string | null, cleared: string | null])[] = [
    [{ posted: null }, 'raised', null],
    [{ posted: null, mark: 2 }, 'raised', null],
    // Of an alert before that one.
    [{ posted: null, mark: 2, posted_mark: 2 }, 'raised', null],
    [{ posted: 'raised' }, null, 'cleared'],
    [{ posted: 'raised', mark: 2, posted_mark: 1 }, 'raised', 'cleared'],
    [{ posted: 'raised', mark: 2, posted_mark: 2 }, null, 'cleared'],
    [{ posted: 'raised', mark: 2, posted_mark: 3 }, null, 'cleared'],
    [{ posted: 'raised', mark: 1, posted_mark: null }, 'raised', 'cleared'],
    [{ posted: 'cleared' }, 'raised', null],
    [{ posted: 'cleared', mark: 2, posted_mark: 2 }, 'raised', null],
  ]
  for (const [of, raised, cleared] of cases)
    expect([of, status(of), status({ ...of, cleared_at: 'then' })]).toEqual([of, raised, cleared])
})
