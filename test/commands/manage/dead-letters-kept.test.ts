/** Content of dead letters is kept as long as it may be needed; each body of an event is separate. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { storeDeadLetters } from '../../../src/load/dead-letters.ts'
import { openHousekeeping } from '../../../src/operate/serve/parts.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { openScene, type Scene, silent } from '../../ingest/drain/scene.ts'
import { runCommand } from '../../support/run-command.ts'

const CANARY = 'Kanarienvogel7351'

let scene: Scene

beforeEach(async () => {
  scene = await openScene()
})
afterEach(async () => {
  await scene[Symbol.asyncDispose]()
})

const deadLetters = (words: string) =>
  runCommand(['dead-letters', ...words.split(' ')], { DATABASE_URL: scene.url })

async function put(recordId: string): Promise<void> {
  const deadLetter = {
    ...{ recordId, origin: 'run:1 page:2', reason: 'cannot be read' },
    body: `{"id":"${recordId}","name":"${CANARY}"}`,
  }
  await using session = await openSession({ url: scene.url, purpose: 'test' })
  await storeDeadLetters(session.db, { teamId: scene.teamId, stream: 'patients', runId: null }, [deadLetter])
}

/** Moves the settling of dead letters this many days into the past. */
const age = (days: number) =>
  scene.session.client.query(
    'update intake_ops.dead_letters set settled_at = settled_at - make_interval(days => $1)',
    [days],
  )

const housekeeping = async () =>
  await (
    await openHousekeeping({
      url: scene.url,
      inboxDays: 30,
      logger: silent,
    })
  )[Symbol.asyncDispose]()

const bodies = async () =>
  (
    await scene.rows<{ id: number }>('select dead_letter_id::int as id from intake_raw.set_aside order by 1')
  ).map(({ id }) => id)

test('content of a settled dead letter is removed after its retention; the dead letter stays, and so do waiting ones', async () => {
  for (const id of ['p-1', 'p-2', 'p-3']) await put(id)
  await deadLetters('discard 1')
  await deadLetters('retry 2')
  await age(29)
  await housekeeping()
  expect(await bodies()).toEqual([1, 2, 3])
  await age(2)
  await housekeeping()
  expect(await bodies()).toEqual([3])
  const shown = await deadLetters('show 1 --show-values')
  expect([shown.code, shown.stdout]).toEqual([0, expect.stringContaining('removed (INTAKE_INBOX_DAYS)')])
  expect(shown.output).not.toContain(CANARY)
  expect(JSON.parse((await deadLetters('show 1 --show-values --json')).stdout)).toMatchObject({
    status: 'discarded',
    settled_at: expect.stringMatching(/^\d{4}-/),
    content: null,
  })
  // A discarded one is recognized by its fingerprint, and does not wait again.
  await put('p-1')
  expect(await scene.rows(`select id::int from intake_ops.dead_letters where status = 'waiting'`)).toEqual([
    { id: 3 },
  ])
})

test('if several events share an id, only the one with the given body is retried', async () => {
  const event = (data: object) => ({
    ...{ id: 'e-1', timestamp: '2026-01-01T12:00:01Z', event_type: 'updated', source: 'response' },
    data,
  })
  // The dead letter of a response differs from the received bytes: signature images are cut.
  const signed = { e_signatures: [{ id: 's', image: 'data:image/png;base64,AAAA' }] }
  await scene.store([event({ form: 'f' }), event({ ...signed, form: 'g' }), event({ ...signed, form: 'h' })])
  await scene.drain()
  expect(await scene.inbox()).toEqual({ dead: 3 })
  const [second] = await scene.rows<{ id: number }>(
    `select dead_letter_id::int as id from intake_raw.set_aside where position('"g"'::bytea in body) > 0`,
  )
  expect((await deadLetters(`retry ${second!.id}`)).code).toBe(0)
  expect(
    await scene.rows(`select status from intake_raw.inbox where position('"g"'::bytea in body) > 0`),
  ).toEqual([{ status: 'pending' }])
  expect(await scene.inbox()).toEqual({ dead: 2, pending: 1 })
  await scene.drain()
  expect(await scene.inbox()).toEqual({ dead: 3 })
})
