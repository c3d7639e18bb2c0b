/**
 * What a receiver gets, and what is recorded, for each fault of webhooks together with each answer, and with what happens
 * to the configuration meanwhile. Time passes only where a script says so, and nothing leaves the process. After an intended
 * change, `npx vitest run test/emulator/webhooks/traces.test.ts -u` updates the recording; read the difference.
 */
import { setMaxListeners } from 'node:events'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { ServiceClock, Timeline } from '../../../src/emulator/clock.ts'
import { parseFaults } from '../../../src/emulator/faults.ts'
import type { Settings } from '../../../src/emulator/options.ts'
import { shapeNamed } from '../../../src/emulator/shapes/catalogue.ts'
import { AttemptLog, Work } from '../../../src/emulator/webhooks/attempt.ts'
import { Channel } from '../../../src/emulator/webhooks/channel.ts'
import { Subjects } from '../../../src/emulator/webhooks/envelope.ts'
import type { AttemptOutcome } from '../../../src/emulator/webhooks/sender.ts'
import { DEFAULTS, type WebhookConfig } from '../../../src/emulator/webhooks/webhook-configs.ts'
import { World } from '../../../src/emulator/world/world.ts'
import type { Loose } from '../caller.ts'
import { makeTime } from '../passing-clock.ts'

const RECORDED = join(import.meta.dirname, '..', 'recorded', 'traces.txt')
const NOON = Date.parse('2026-03-01T12:00:00Z') * 1000

const OUTCOMES: Readonly<Record<string, AttemptOutcome>> = {
  ok: { acknowledged: true, status: 200, error: null, final: false },
  fail: { acknowledged: false, status: 500, error: 'answered 500', final: false },
  final: { acknowledged: false, status: null, error: 'refused', final: true },
}

/**
 * Plays a script: `p`, `f`, `k` change a patient, a form, a packet's progress, `new` creates a patient, `gone` deletes
 * it; `ok`, `fail`, `final`, `hang` are the answers from then on, `answer` ends those that hang; `off`, `on`, `write`,
 * `moved` and `drop` happen to the configuration; `close` ends the emulator, `skew` sets its clock wrong; a number is milliseconds that pass.
 */
async function play(faults: string, script: string): Promise<string[]> {
  const time = makeTime(NOON)
  const service = new ServiceClock(time.clock, 1)
  const timeline = new Timeline(service, time.clock)
  const sizes = { patients: 3, forms: 3, packets: 1, documents: 1, responses: 12 }
  const nobody = { patients: [], forms: [], surveys: [] }
  const world = new World(['traces'], sizes, nobody, service, timeline)
  const [subjects, log, work, stop] = [
    new Subjects(world),
    new AttemptLog(),
    new Work(),
    new AbortController(),
  ]
  setMaxListeners(0, stop.signal)
  const lines: string[] = []
  const events: string[] = []
  const secrets = ['secret']
  const hanging: (() => void)[] = []
  let answers = 'ok'
  async function post(url: string, body: Buffer, secret: string): Promise<AttemptOutcome> {
    const { id, timestamp, event_type, source, data } = JSON.parse(body.toString()) as Loose
    if (!events.includes(id)) events.push(id)
    const state = data.city ?? data.text ?? data.form_index
    if (!secrets.includes(secret)) secrets.push(secret)
    const signer = secret === 'secret' ? '' : ` forged with secret ${secrets.indexOf(secret)}`
    const sent = Date.parse(timestamp) - NOON / 1000
    const what = `${time.milliseconds()}: ${url}${events.indexOf(id) + 1} ${source} ${event_type}`
    lines.push(`${what} of ${sent}: ${state}${signer}`)
    const answered = answers
    if (answered === 'hang') await new Promise<void>((resolve) => hanging.push(resolve))
    return OUTCOMES[answered === 'hang' ? answers : answered]!
  }
  const settings = {
    faults: parseFaults(faults),
    seed: '1',
    shape: shapeNamed('default', '1'),
  } as unknown as Settings
  const sender = { post, close: async () => {} }
  const context = {
    ...{ world, settings, sender, subjects, log, work },
    clock: time.clock,
    closing: stop.signal,
  }
  let config = {
    id: 'c',
    target_url: '/',
    signature_secret: 'secret',
    version: '',
    ...DEFAULTS,
  } as WebhookConfig
  const channel = new Channel(context, config)
  world.subscribe((event) => {
    subjects.note(event)
    if (event.source !== 'message') channel.offer(event)
  })
  const [patient, form, packet] = [world.patients.at(1)!, world.forms.at(0)!, world.packetResponses.at(0)!]
  let step = 0
  const write = (fields: Partial<WebhookConfig>) => {
    config = { ...config, ...fields }
    channel.reconfigure(config)
  }
  const acts: Readonly<Record<string, () => unknown>> = {
    p: () => world.patients.update(patient.id, (old) => ({ ...old, city: `city ${step}` })),
    f: () => world.forms.update(form.id, (old) => ({ ...old, text: `text ${step}` })),
    k: () => world.packetResponses.update(packet.id, (old) => ({ ...old, form_index: step })),
    new: () => world.patients.create((id) => ({ ...patient, id, city: `new ${step}` })),
    gone: () => world.patients.remove(patient.id),
    answer: () => hanging.splice(0).forEach((end) => void end()),
    ...{
      off: () => write({ is_active: false }),
      on: () => write({ is_active: true }),
      write: () => write({}),
    },
    moved: () => write({ target_url: '/moved/', sources: ['form'] }),
    skew: () => (service.skew = 1_000_000),
    ...{ drop: () => channel.drop(), close: () => stop.abort() },
  }
  for (const word of script.split(' ')) {
    step += 1
    if (word in OUTCOMES || word === 'hang') answers = word
    else if (word in acts) acts[word]!()
    else await time.pass(Number(word))
  }
  await time.settled()
  const at = ({ created_at, next_retry_at }: Loose) =>
    [created_at, next_retry_at].map((text) => (text === null ? '' : Date.parse(text) - NOON / 1000)).join(' ')
  for (const one of log.listing().slice(0, 1000))
    lines.push(`${events.indexOf(one.event_id) + 1}/${one.attempts} ${one.status} ${at(one)}`.trimEnd())
  lines.push(`${work.pending} pending, ${channel.retrying} retrying`)
  timeline.close()
  return lines
}

/** Faults, script and shape; `|` between them. */
const PLAYS = `
 | new p k f gone 0
 | p gone 0 p 0
 | fail p 0 ok p 5000
 | fail p 0 p 0 gone 0 ok 5000
 | fail k 0 k 0 ok k 5000
 | hang p p p p p p p p 0 k 0 k 0 off on k k ok answer 0
 | hang p p p p p p p p 0 k 7 k 7 p p ok answer 0
 | fail p f 0 moved p f 0 ok 5000
 | fail p 0 off on ok 40000 p 0
 | fail p 0 5000 30000 120000 600000 3600000 ok 10000000
 | final p 0 ok 5000
 | hang p 0 drop fail answer 0 5000
 | hang p 0 close fail answer 0 5000 p 0
 | fail p 0 close ok 5000
 | fail p 0 off
 | fail p p 0 drop
 | skew fail p 0 ok 5000
webhook-duplicate | p 0 fail f 0 ok 5000
webhook-duplicate | hang p p p p p p p p 0 k k ok answer 0 k 0
webhook-duplicate | final p 0 5000
webhook-delay@patient=700 | p f 0 p 699 1 gone 700
webhook-delay=700 | k 100 k 0 600 k 0 700
webhook-delay=700 | p 100 off on p 700
webhook-delay=700 | p 100 gone 700
webhook-delay=700 | p 0 close 0
webhook-delay=700 | p 0 close 0 700
webhook-delay=700 | fail p 700 ok 5000
webhook-reorder | p f 0
webhook-reorder | p 999 f 0 p 0 1000
webhook-reorder | p p p 0 f 0 1000
webhook-reorder@patient | p 0 f 0 k 0
webhook-reorder | p 0 close 0
webhook-reorder | p 0 close 0 1000
webhook-reorder | p 0 off on f 0 1000
webhook-reorder | k 500 k f 0
webhook-reorder,webhook-delay@patient=300 | p f 300 0 1000
webhook-reorder | fail p f 0 ok 5000
webhook-drop@patient,webhook-off=2 | p p f p f p f 0
webhook-off@patient=2 | f f p f 0 write f p f p f 0
webhook-off=2 | fail p 0 p p ok 5000 write p 0
webhook-off=2 | p p p off on p p 0
webhook-off=2 | hang p p 0 p fail answer 0
webhook-off | p 0 write f 0
webhook-drop | p 0 5000
webhook-forge | p 0 fail f 0 ok 5000
webhook-forge,webhook-duplicate | p 0
webhook-forge | hang p 0 p p p p p p p p off ok answer 0
webhook-forge | k 0 new gone 0
webhook-rerender | p 0 p 0 500
webhook-rerender=100 | p 0 gone 100 100
webhook-rerender=100 | fail p 0 p 100 ok 5000 100
webhook-rerender=100 | p 0 fail p 100 5000 ok 30000 100
webhook-rerender=100 | p 0 off 100 on p 100 100
webhook-rerender=100 | p 0 close
webhook-rerender=100 | p 0 close 100
webhook-rerender=100 | k 0 k 0 100
webhook-rerender=100,webhook-duplicate | p 0 100
webhook-rerender=100,webhook-forge | p 0 100
webhook-rerender=100,webhook-delay=50 | p 50 100
`

it('each fault, answer and change of a configuration has the effects that it had', async () => {
  const traces: string[] = []
  for (const line of PLAYS.trimEnd().split('\n').slice(1)) {
    const [faults = '', script = ''] = line.split('|').map((part) => part.trim())
    traces.push(`${faults} | ${script}`.trim(), ...(await play(faults, script)).map((one) => `  ${one}`))
  }
  await expect(`${traces.join('\n')}\n`).toMatchFileSnapshot(RECORDED)
})
