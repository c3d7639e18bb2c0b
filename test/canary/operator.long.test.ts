/**
 * Law 8 around `serve`: a clinic with the canary in every text is received, backfilled, verified, explained, repaired and
 * erased, at the most verbose log level, while everything that can fail fails. The canary is in the tables that contain
 * health data, and in nothing that anybody is shown.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { sign } from '../../src/core/signature.ts'
import { CANARY, rowsWithCanary } from '../e2e/support/canary.ts'
import { withoutPauses } from '../e2e/support/impatient.ts'
import { openScene, query, type Scene } from '../e2e/support/scene.ts'
import { ANYWHERE, createWebhook, type ServingProcess, startServing, until } from '../e2e/support/serving.ts'
import { tablesHolding } from '../operate/everywhere.ts'
import type { Variables } from '../support/cli.ts'
import { plant, work } from './planted-world.ts'
import { openAlertReceiver, openWitness, type Witness } from './witness.ts'

withoutPauses()

const SECRET = `whsec_${CANARY}`

let scene: Scene
let env: Variables
let witness: Witness
let alerts: Awaited<ReturnType<typeof openAlertReceiver>>
let serving: ServingProcess

beforeAll(async () => {
  scene = await openScene({
    ...{ patients: 14, forms: 4, packets: 2, documents: 2, responses: 24, pageSize: 6 },
    ...{ apiKey: `${CANARY}-key`, apiSecret: `${CANARY}-secret` },
  })
  plant(scene.emulator)
  const own: Record<string, string | undefined> = {
    ...{ ...scene.env, ...ANYWHERE, LOG_LEVEL: 'trace', INTAKE_WEBHOOK_SECRETS: SECRET },
    INTAKE_ALERT_SECRET: `${CANARY}-alerts`,
  }
  env = own
  witness = openWitness(scene.url, own)
  alerts = await openAlertReceiver(witness)
  own.INTAKE_ALERT_URL = alerts.url
})

afterAll(async () => {
  await serving?.stop('SIGKILL')
  await alerts?.[Symbol.asyncDispose]()
  await scene?.[Symbol.asyncDispose]()
})

const settledInbox = async () => {
  const webhooks = scene.emulator.control.webhooks()
  await until('the service has sent everything', () => webhooks.pending === 0, 60_000)
  await until(
    'everything is drained',
    async () => {
      const [row] = await query<{ pending: number }>(
        scene.url,
        "select count(*)::int as pending from intake_raw.inbox where status = 'pending' and attempts = 0",
      )
      return row!.pending === 0
    },
    60_000,
  )
}

async function send(
  body: string | Buffer,
  { secret = SECRET, path = '', headers = {} } = {},
): Promise<number> {
  const response = await fetch(`${serving.document.webhooks}${path}`, {
    method: 'POST',
    body,
    headers: { 'x-service-signature': sign(Buffer.from(body), secret), ...headers },
  })
  witness.heard(`an answer to ${path || 'an event'}`, await response.text())
  return response.status
}

let sent = 0

function event(data: unknown, more: object = {}): string {
  sent += 1
  const envelope = { id: `e-${sent}`, timestamp: new Date().toISOString(), event_type: 'updated' }
  return JSON.stringify({ ...envelope, source: 'patient', data, ...more })
}

const wholePatient = () => ({
  ...scene.emulator.control.world().patients.at(5)!,
  updated_at: new Date().toISOString(),
})

describe('a clinic with the canary in every text', () => {
  it("is loaded: the canary is in every table that contains a person's text", async () => {
    // The detail of a constraint violation contains the whole row.
    await query(scene.url, "alter table intake.patients add check (city not like '%refused')")
    const { control } = scene.emulator
    control.updatePatient(control.world().patients.at(1)!.id, { city: 'refused' })
    expect((await witness.run(['backfill'])).code).toBe(4)
    const [deadLetter] = await query<{ reason: string }>(
      scene.url,
      'select reason from intake_ops.dead_letters',
    )
    expect(deadLetter!.reason).toContain('SQLSTATE 23514')
    const found = await rowsWithCanary(scene.url, 'intake')
    const without = Object.keys(found).filter((table) => found[table] === 0)
    expect(without).toEqual([
      ...['packet_forms', 'packet_response_members', 'packet_responses', 'teams'],
      ...['webhook_configs', 'webhook_deliveries'],
    ])
    expect(await rowsWithCanary(scene.url, 'intake_raw')).toMatchObject({
      records: expect.toSatisfy((n: number) => n > 60),
    })
    await witness.expectSilence()
  })

  it('is received while the service and the connection to it fail in every way', async () => {
    serving = await startServing(env)
    await createWebhook(env, serving.document.webhooks!)
    const { control } = scene.emulator
    control.setFaults(
      [
        'webhook-duplicate=0.3,webhook-reorder=0.3,webhook-delay=0.2:50,webhook-drop=0.05,webhook-forge=0.1',
        'webhook-rerender=0.3,http-500=0.1,html-502=0.05,reset=0.05,cut-json=0.05,corrupt-json=0.05,empty-body=0.02',
      ].join(),
    )
    work(control, 8)
    await until(
      'events came',
      async () => (await query(scene.url, 'select from intake_raw.inbox')).length > 20,
      60_000,
    )
    await settledInbox()
    control.setFaults('')
    const [stored] = await query<{ count: number }>(
      scene.url,
      "select count(*)::int from intake_raw.records where origin like 'event:%' and payload::text like $1",
      [`%${CANARY}%`],
    )
    expect(stored!.count).toBeGreaterThan(5)
  })

  it('is received in events that no service should send', async () => {
    const whole = wholePatient()
    const bodies = [
      `{"source":"patient","data":{"first_name":"${CANARY}`,
      CANARY,
      `["${CANARY}"]`,
      event({ first_name: CANARY }),
      event({ ...whole, id: 'p-odd', first_name: { [CANARY]: [CANARY] }, date_birth: [CANARY] }),
      event({ ...whole, id: 'p-nul', last_name: `${CANARY}\u0000\ud800`, unheard_of: { [CANARY]: CANARY } }),
      event({ id: 'p-partial', first_name: CANARY }),
      event([CANARY]),
      event({ id: { name: CANARY } }),
      event({ name: CANARY }, { event_type: 'deleted' }),
      event(whole, { event_type: CANARY }),
      event({ id: 'x', name: CANARY }, { source: CANARY }),
      event(whole, { timestamp: CANARY }),
      event({ id: 'pr', note: CANARY }, { source: 'packet_response' }),
      event({ id: 'r', answers: CANARY, e_signatures: [{ image: CANARY }] }, { source: 'response' }),
      Buffer.concat([
        Buffer.from(`{"source":"patient","data":"${CANARY}`),
        Buffer.from([0xff, 0xfe]),
        Buffer.from('"}'),
      ]),
    ]
    for (const body of bodies) expect(await send(body)).toBe(200)
    expect(await send(event(whole), { secret: `not-${CANARY}` })).toBe(400)
    expect(await send(event(whole), { headers: { 'x-service-signature': CANARY } })).toBe(400)
    expect(await send(event(whole), { path: `/${CANARY}?name=${CANARY}` })).toBe(404)
    expect(await send(`${event(whole)}${' '.repeat(5_300_000)}`)).toBe(413)
    await settledInbox()
    const deadLetters = await query<{ reason: string }>(
      scene.url,
      'select reason from intake_ops.dead_letters',
    )
    expect(deadLetters.length).toBeGreaterThanOrEqual(8)
  })

  it('appears on no surface of serve', async () => {
    for (const path of ['/metrics', '/healthz', '/readyz', `/${CANARY}`])
      witness.heard(path, (await serving.get(path)).text.replaceAll(`/${CANARY}`, ''))
    expect(
      await serving.metric('intake_dead_letters_waiting{team="default",stream="patients"}'),
    ).toBeGreaterThan(0)
    await witness.expectSilence()
  })

  it('appears in no command of an operator, in a pipe or on a terminal', async () => {
    const { control } = scene.emulator
    const world = control.world()
    const [patient, response, form] = [
      world.patients.at(4)!.id,
      world.responses.at(4)!.id,
      world.forms.at(1)!.id,
    ]
    // A file damaged on its way differs from the stored one, and verify reports it: it meets only passing failures.
    const passing = 'http-500=0.05,reset=0.03'
    const damaging = `${passing},invalid-utf8=0.1`
    const commands: readonly (readonly [code: number, words: readonly string[]])[] = [
      // First, so that a verification need not read again after events; 4, because dead letters wait.
      [4, ['backfill', '--full']],
      [0, ['status']],
      [0, ['runs']],
      [4, ['verify', '--deep']],
      [0, ['verify', '--repair']],
      [0, ['explain', 'patients', patient]],
      [0, ['explain', 'patients', 'p-odd']],
      [0, ['explain', 'responses', response]],
      [0, ['explain', 'forms', form]],
      [0, ['explain', 'patients', 'p-partial']],
      [0, ['dead-letters', 'list']],
      [0, ['dead-letters', 'show', '1']],
      [0, ['dead-letters', 'retry', '--all']],
      [0, ['dead-letters', 'list', '--status', 'all']],
      [0, ['replay']],
      [4, ['replay', '--inbox', '--since', '2020-01-01']],
      [4, ['backfill', '--full', '--dry-run']],
      [0, ['webhooks', 'list']],
      [0, ['webhooks', 'events']],
      [0, ['access', 'list']],
      [0, ['migrate', '--status']],
      [0, ['doctor']],
    ]
    for (const [code, words] of commands) {
      control.setFaults(words[0] === 'verify' ? passing : damaging)
      if (words[0] === 'verify')
        await query(scene.url, 'update intake.patients set city = null where id = $1', [patient])
      const ended = await witness.run(words, 80)
      expect(ended.code, `${words.join(' ')}: ${ended.output}`).toBe(code)
      expect(ended.stdout.length, `${words.join(' ')}: ${ended.output}`).toBeGreaterThan(10)
      const document = await witness.run([...words, '--json'])
      expect(() => JSON.parse(document.stdout), words.join(' ')).not.toThrow()
    }
    await witness.expectSilence()
  })

  it('is gone with the patient, also from what serve does next', async () => {
    const { control } = scene.emulator
    control.setFaults('')
    const { id } = control.world().patients.at(4)!
    const ended = await witness.run(['erase', 'patient', id, '--yes'])
    expect(ended.code).toBe(0)
    control.updatePatient(id, { city: 'Again' })
    await settledInbox()
    expect(await tablesHolding(scene.url, [id])).toEqual({})
    // An event that Postgres rejects is retried for a minute, and reported each time.
    expect(await send(event({ ...wholePatient(), id: 'p-refused', city: `${CANARY} refused` }))).toBe(200)
    await until('it was refused', async () => {
      const rows = await query(
        scene.url,
        "select from intake_raw.inbox where record_id = 'p-refused' and attempts > 0",
      )
      return rows.length > 0
    })
    // Dead letters need attention.
    await until('an alert was posted', () => witness.times('an alert') > 0, 120_000)
    const { stdout, stderr, code } = await serving.stop()
    expect(code).toBe(0)
    expect(stderr).toContain('"level":20')
    witness.heard('serve', stdout + stderr)
    await witness.expectSilence()
    expect(witness.amount()).toBeGreaterThan(100_000)
  })
})
