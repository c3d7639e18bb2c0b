/** Alerts from the processes that look for them: `serve` while it runs, and other commands at their end. */
import pino from 'pino'
import { expect, it, onTestFinished } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import type { ServeOptions } from '../../../src/operate/serve/parts.ts'
import { openServe } from '../../../src/operate/serve/serve.ts'
import { openScene } from '../../e2e/support/scene.ts'
import type { Variables } from '../../support/cli.ts'
import { runCommand } from '../../support/run-command.ts'
import { openReceiver, SECRET, shortOf } from './receiver.ts'

const FEW = { patients: 3, forms: 1, packets: 1, documents: 1, responses: 3 }

async function openAll() {
  const receiver = await openReceiver()
  const scene = await openScene(FEW)
  onTestFinished(async () => {
    await receiver[Symbol.asyncDispose]()
    await scene[Symbol.asyncDispose]()
  })
  const env: Variables = { ...scene.env, INTAKE_ALERT_URL: receiver.url, INTAKE_ALERT_SECRET: SECRET }
  const posted = () => receiver.taken().map(shortOf)
  return { receiver, scene, env, posted }
}

it('a backfill from cron, without serve, posts once that it failed, and that the next one did not', async () => {
  const { receiver, scene, env, posted } = await openAll()
  const wrong = { ...env, INTAKE_API_SECRET: 'not the secret' }
  const [failed, again] = [await runCommand(['backfill'], wrong), await runCommand(['backfill'], wrong)]
  expect([failed.code, again.code]).toEqual([1, 1])
  const posts = receiver.posts
  expect(posts).toHaveLength(1)
  expect(posts[0]!.isSigned).toBe(true)
  expect(shortOf(posts[0]!)).toContain('raised backfill_failed default patients')
  expect(posts[0]!.document.text.split('\n')).toHaveLength(1)
  expect(`${failed.stderr}${posts[0]!.body}`).not.toContain('not the secret')
  posted()
  // A dry run neither posts nor stores anything about what has happened since.
  await scene.query(
    `insert into intake_ops.runs (kind, status, options, finished_at)
     values ('replay', 'failed', '{"teams":["default"]}', now())`,
  )
  const stored = 'select * from intake_ops.alerts order by id'
  const before = await scene.query(stored)
  expect((await runCommand(['backfill', '--dry-run'], env)).code).toBe(0)
  expect(posted()).toEqual([])
  expect(await scene.query(stored)).toEqual(before)
  expect((await runCommand(['backfill'], env)).code).toBe(0)
  const cleared = posted()
  expect(cleared).toHaveLength(1)
  expect(cleared[0]).toContain('cleared backfill_failed default patients')
  expect(cleared[0]).toContain('raised replay_failed default')
})

it('verify posts differences, and its repair clears them; replay posts its own failure', async () => {
  const { scene, env, posted } = await openAll()
  expect((await runCommand(['backfill'], env)).code).toBe(0)
  await scene.query(
    "update intake.patients set first_name = 'changed by hand' where id = (select min(id) from intake.patients)",
  )
  expect((await runCommand(['verify', '--streams', 'patients'], env)).code).toBe(4)
  expect(posted()).toEqual([['raised verify_differs default patients']])
  expect((await runCommand(['verify', '--streams', 'patients', '--repair'], env)).code).toBe(0)
  expect(posted()).toEqual([['cleared verify_differs default patients']])
  const failed = `insert into intake_ops.runs (kind, status, options, finished_at)
    values ('replay', 'failed', '{"teams":["default"]}', now())`
  await scene.query(failed)
  expect((await runCommand(['verify', '--streams', 'patients'], env)).code).toBe(0)
  expect(posted()).toEqual([['raised replay_failed default']])
  expect((await runCommand(['replay', '--streams', 'forms'], env)).code).toBe(0)
  expect(posted()).toEqual([['cleared replay_failed default']])
})

it('a receiver that rejects posts does not change how a run ends', async () => {
  const { receiver, env, posted } = await openAll()
  receiver.answer(500)
  const ended = await runCommand(['backfill'], { ...env, INTAKE_API_SECRET: 'not the secret' })
  expect(ended.code).toBe(1)
  expect(ended.stderr).toContain('INTAKE_ALERT_URL did not accept the alerts: it responded 500')
  expect(posted()).toHaveLength(3)
  const well = await runCommand(['backfill', '--json'], env)
  expect([well.code, JSON.parse(well.stdout).status]).toEqual([0, 'succeeded'])
})

it('serve posts an old inbox and when it is drained; of two processes, one does; it stops while a post hangs', async () => {
  const { receiver, scene, posted } = await openAll()
  await scene.query("insert into intake.teams (name) values ('default')")
  await scene.query(
    `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, source, body)
     select team_id, 'e-1', '\\x00', current_date, now() - interval '6 minutes', 'patient', '{}' from intake.teams`,
  )
  const nowhere = { host: '127.0.0.1', port: 0 }
  const options: ServeOptions = {
    ...{ url: scene.url, ingestTeams: [{ name: 'default', webhookSecrets: [] }], teams: [] },
    ...{ ingest: null, drain: false, cron: null, admin: nowhere, inboxDays: 30, encryptionKey: null },
    ...{ backfill: async () => {}, clock: systemClock, random: Math.random },
    ...{ logger: pino({ level: 'silent' }), alertsEveryMs: 100 },
    alerts: { url: receiver.url, secret: SECRET, inboxSeconds: 300, maxAgeHours: 26 },
  }
  const both = await Promise.all([openServe(options), openServe(options)])
  await expect.poll(posted).toEqual([['raised inbox_old default']])
  const raised = async (at: number) => {
    const text = await (await fetch(`${both[at]!.admin}/metrics`)).text()
    return text.includes('intake_alerts_raised{team="default",cause="inbox_old"} 1')
  }
  await expect.poll(async () => [await raised(0), await raised(1)]).toEqual([true, true])
  receiver.answer('hang')
  await scene.query("update intake_raw.inbox set status = 'done', settled_at = now()")
  await expect.poll(posted).toEqual([['cleared inbox_old default']])
  await Promise.all(both.map((serving) => serving.close()))
  // Not accepted: the next round posts it again, with the same id.
  receiver.answer(200)
  await using _third = await openServe(options)
  await expect.poll(posted).toEqual([['cleared inbox_old default']])
  expect(new Set(receiver.posts.flatMap(({ document }) => document.alerts.map(({ id }) => id))).size).toBe(1)
})
