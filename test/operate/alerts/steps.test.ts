/** Every column of an alert after each step of its life; the alert of another team is left as it was. */
import { expect, it } from 'vitest'
import { query } from '../../e2e/support/scene.ts'
import { openScene, type Scene } from './scene.ts'

type Row = Readonly<Record<string, unknown>>

const drift = (scene: Scene, team: string, path: string, stream = 'forms') =>
  scene.query(
    `insert into intake_ops.drift (team_id, stream, path, type, count)
     select team_id, '${stream}', '${path}', 'string', 1 from intake.teams where name = '${team}'`,
  )
const aged = (scene: Scene, days: number) =>
  scene.query(
    `update intake_ops.drift set last_seen = now() - interval '${days} days'
     where team_id = (select team_id from intake.teams where name = 'north')`,
  )

/** By the names that the code has for these columns. */
const storedOf = async (team: string, url: string): Promise<Row> => {
  const [row] = await query<Row>(
    url,
    `select alert.* from intake_ops.alerts alert join intake.teams team using (team_id) where team.name = '${team}'`,
  )
  return Object.fromEntries(
    Object.entries(row!).map(([name, value]) => [name.replace(/^to(?=ld)ld/, 'posted'), value]),
  )
}

/** Ids and times: whether they changed, not what they are. */
const MOVING = ['id', 'raised_at', 'cleared_at', 'posted_at', 'due_at']

function openSteps(scene: Scene) {
  let before: Row = {}
  return async (answer: number, change: () => Promise<unknown> = async () => {}) => {
    await change()
    scene.receiver.answer(answer)
    scene.receiver.taken()
    const outcome = await scene.round()
    const row = await storedOf('north', scene.url)
    const moved = MOVING.filter((name) => JSON.stringify(row[name]) !== JSON.stringify(before[name]))
    before = row
    const { mark, posted, posted_mark, attempts, figures, cleared_at } = row
    const number = (each: unknown) => (each === null ? null : Number(each))
    const status = scene.receiver
      .taken()
      .flatMap(({ document }) => document.alerts.filter(({ team }) => team === 'north'))
      .map((alert) => `${alert.status} ${alert.figures.fields}`)
      .join()
    const tries = Number(attempts)
    return [
      ...[outcome, status, number(mark), figures, posted, number(posted_mark), tries],
      ...[cleared_at === null ? 'raised' : 'cleared', moved.join()],
    ]
  }
}

it('each column of an alert follows from what was found, what was posted and what was accepted', async () => {
  const scene = await openScene()
  const step = openSteps(scene)
  for (const team of ['north', 'south']) for (const path of ['a', 'b']) await drift(scene, team, path)
  const due = () => scene.query(`update intake_ops.alerts set due_at = now() where team_id = 1`)
  const fields = (count: number) => [count, { fields: count }] as const
  expect(await step(503)).toEqual([
    ...['failed', 'raised 2', ...fields(2), null, null, 1, 'raised'],
    'id,raised_at,cleared_at,posted_at,due_at',
  ])
  expect(await step(503, due)).toEqual([
    'failed',
    'raised 2',
    ...fields(2),
    null,
    null,
    2,
    'raised',
    'due_at',
  ])
  expect(await step(200, due)).toEqual([
    ...['posted', 'raised 2', ...fields(2), 'raised', 2, 0, 'raised', 'posted_at,due_at'],
  ])
  const south = await storedOf('south', scene.url)
  expect(await step(200)).toEqual(['quiet', '', ...fields(2), 'raised', 2, 0, 'raised', ''])
  // It grows, and is posted again until that is accepted.
  expect(await step(503, () => drift(scene, 'north', 'c'))).toEqual([
    ...['failed', 'raised 3', ...fields(3), 'raised', 2, 1, 'raised', 'due_at'],
  ])
  expect(await step(200, due)).toEqual([
    ...['posted', 'raised 3', ...fields(3), 'raised', 3, 0, 'raised', 'posted_at,due_at'],
  ])
  // It ends, and returns before its end was accepted: it is the same alert.
  expect(await step(503, () => aged(scene, 8))).toEqual([
    ...['failed', 'cleared 3', ...fields(3), 'raised', 3, 1, 'cleared', 'cleared_at,due_at'],
  ])
  const returns = async () => {
    await aged(scene, 0)
    await drift(scene, 'north', 'd')
  }
  expect(await step(200, returns)).toEqual([
    ...['posted', 'raised 4', ...fields(4), 'raised', 4, 0, 'raised', 'cleared_at,posted_at,due_at'],
  ])
  expect(await step(200, () => aged(scene, 8))).toEqual([
    ...['posted', 'cleared 4', ...fields(4), 'cleared', 4, 0, 'cleared', 'cleared_at,posted_at,due_at'],
  ])
  // As much as was posted before is not posted again; more than that is another alert.
  expect(await step(200, () => aged(scene, 0))).toEqual([
    ...['quiet', '', ...fields(4), 'cleared', 4, 0, 'cleared', ''],
  ])
  expect(await step(200, () => drift(scene, 'north', 'e'))).toEqual([
    ...['posted', 'raised 5', ...fields(5), 'raised', 5, 0, 'raised'],
    'id,raised_at,cleared_at,posted_at,due_at',
  ])
  expect(await storedOf('south', scene.url)).toEqual(south)
})

it('drift that ended before any post of it was accepted, and is seen again, is posted', async () => {
  const scene = await openScene()
  const whole = openSteps(scene)
  const step = async (...of: Parameters<typeof whole>) => (await whole(...of)).slice(0, 2)
  await drift(scene, 'north', 'a')
  expect(await step(503)).toEqual(['failed', 'raised 1'])
  expect(await step(200, () => aged(scene, 8))).toEqual(['quiet', ''])
  expect(await step(200, () => aged(scene, 0))).toEqual(['posted', 'raised 1'])
  // So is drift that had grown since it was posted.
  expect(await step(503, () => drift(scene, 'north', 'b'))).toEqual(['failed', 'raised 2'])
  expect(await step(503, () => aged(scene, 8))).toEqual(['failed', 'cleared 2'])
  expect(await step(200, () => aged(scene, 0))).toEqual(['posted', 'raised 2'])
  expect(await step(200)).toEqual(['quiet', ''])
})
