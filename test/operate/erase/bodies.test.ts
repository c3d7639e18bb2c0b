/** An erasure removes events and dead letters whose bytes name the patient, wherever they do, and no others. */
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { nothingRemoved } from '../../../src/operate/erase/remove.ts'
import { removeBodies } from '../../../src/operate/erase/remove-bodies.ts'
import { openScene } from '../../ingest/drain/scene.ts'

test.each([
  ['an id that does not occur by chance, wherever it is', randomUUID(), true],
  ['a short id, only where it is that of the patient', '4711', false],
])('of %s', async (_, id, isEverywhere) => {
  await using scene = await openScene()
  const { rows } = scene
  const event = (source: string, data: object) => JSON.stringify({ event_type: 'updated', source, data })
  const bodies = {
    own: event('patient', { id, first_name: 'Ada' }),
    of: event('response', { id: 'r', patient: { id } }),
    elsewhere: event('form', { id: 'f', note: `about ${id}.` }),
    broken: `{"note": "${id}"`,
    other: event('patient', { id: 'another', first_name: 'Bob' }),
  }
  for (const team of [1, 2])
    for (const status of ['pending', 'done', 'dead'])
      for (const [name, body] of Object.entries(bodies))
        await rows(
          `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, status, body)
           values ($1, $2, '\\x00', '2026-01-01', now(), $3, convert_to($4, 'UTF8'))`,
          [team, `${status} ${name}`, status, body],
        )
  for (const team of [1, 2])
    for (const [name, body] of Object.entries(bodies))
      await rows(
        `with dead as (
           insert into intake_ops.dead_letters (team_id, stream, fingerprint, origin, reason)
           values ($1, 'inbox', $2, 'event:x', $2) returning id
         )
         insert into intake_raw.set_aside (dead_letter_id, body) select id, convert_to($3, 'UTF8') from dead`,
        [team, name, body],
      )
  // More than one portion of events that only mention it.
  await rows(
    `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, status, body)
     select 1, 'mention ' || n, '\\x00', '2026-01-01', now(), 'pending', convert_to($1, 'UTF8') from generate_series(1, 1001) n`,
    [bodies.elsewhere],
  )
  await rows(
    `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, status, body)
     values (1, 'last', '\\x00', '2026-01-01', now(), 'pending', convert_to($1, 'UTF8'))`,
    [bodies.own],
  )
  const removed = nothingRemoved()
  await removeBodies(scene.session.db, { teamId: 1, id }, removed)
  const kept = isEverywhere ? ['other'] : ['broken', 'elsewhere', 'other']
  const left = await rows<{ id: string }>(
    `select event_id as id from intake_raw.inbox where team_id = 1 and event_id not like 'mention %' order by 1`,
  )
  const events = ['pending', 'done', 'dead'].flatMap((status) =>
    Object.keys(bodies)
      // A pending event may be of another record that only mentions the id: it is not lost.
      .filter((name) => kept.includes(name) || (status === 'pending' && name === 'elsewhere'))
      .map((name) => `${status} ${name}`),
  )
  expect(left.map((row) => row.id)).toEqual(events.sort())
  const deadLetters = await rows<{ reason: string }>(
    'select reason from intake_ops.dead_letters where team_id = 1 order by 1',
  )
  expect(deadLetters.map(({ reason }) => reason)).toEqual(kept)
  expect(removed).toEqual({
    ...nothingRemoved(),
    events: 15 - events.length + 1,
    deadLetters: 5 - kept.length,
  })
  expect(
    await rows(`select count(*)::int as mentions from intake_raw.inbox where event_id like 'mention %'`),
  ).toEqual([{ mentions: 1_001 }])
  expect(
    await rows(
      `select (select count(*)::int from intake_raw.inbox where team_id = 2) as events,
         (select count(*)::int from intake_ops.dead_letters where team_id = 2) as dead`,
    ),
  ).toEqual([{ events: 15, dead: 5 }])
})
