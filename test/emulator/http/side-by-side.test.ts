/**
 * Teams and emulators of one process know nothing of each other: each step of a session has the same answer and the same
 * effects, whether a team is alone or three other teams, one of them of an emulator of other options, take the same step.
 */
import { setImmediate as turn } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { type Emulator, type EmulatorOptions, startEmulator } from '../../../src/emulator/server.ts'
import { type Caller, callerOf, type Loose } from '../caller.ts'
import { stillClock } from '../still-clock.ts'

interface Place {
  readonly emulator: Emulator
  readonly caller: Caller
  readonly team: string
  /** What later steps refer to. */
  readonly ids: Record<string, string>
}

type Step = (place: Place) => unknown

const SIZES = { patients: 12, forms: 5, packets: 3, documents: 3, responses: 40, pageSize: 5 }
const OWN: EmulatorOptions = {
  port: 0,
  clock: stillClock,
  ...SIZES,
  rateLimit: { requests: 25, seconds: 60 },
}
const OTHER: EmulatorOptions = {
  ...{ ...OWN, patients: 30, responses: 70, rateLimit: null, pageSize: 7 },
  ...{ shape: 'bounds-zone+newest-first', faults: 'wrong-count@forms,clock-skew=-7200' },
}

const get =
  (path: string, headers: object = {}): Step =>
  ({ caller }) =>
    caller.get(path, { ...caller.credentials, ...headers })
const keep =
  (name: string, method: string, path: string, body: (place: Place) => unknown): Step =>
  async (place) => {
    const reply = await place.caller.send(
      method,
      path.replace(/\$(\w+)/, (_, id) => place.ids[id]!),
      body(place),
    )
    if (reply.body?.id !== undefined) place.ids[name] = reply.body.id
    return reply
  }
const worldOf = ({ emulator, team }: Place) => emulator.control.world(team)
const upload = (place: Place, rows: string): Promise<Loose> => {
  const body = new FormData()
  body.append('file', new Blob([`first_name,last_name\n${rows}`]), 'a.csv')
  const { baseUrl, credentials } = place.caller
  return fetch(`${baseUrl}/v2/patients/batch-upload`, { method: 'POST', headers: credentials, body }).then(
    (one) => one.json(),
  )
}
/** Time passes once for all teams of an emulator. */
const later = (milliseconds: number) => ({ milliseconds })

const STEPS: readonly (Step | { readonly milliseconds: number })[] = [
  get('/v2/patients?page=2'),
  get('/v2/forms'),
  get('/v2/documents', { 'X-API-VERSION': 'v2.1' }),
  (place) => place.caller.get(`/v2/responses?form=${worldOf(place).forms.at(0)!.id}`),
  (place) => place.caller.get(`/v2/responses?patient=${worldOf(place).patients.at(0)!.id}`),
  get('/v2/responses?submitted_after=2025-06-01'),
  get('/v2/responses?submitted_on=2025-06-01'),
  get('/v2/messages?status=scheduled'),
  (place) =>
    place.caller.send('POST', '/v2/export-csv?type=raw_text', { id: worldOf(place).seed.exportIds.idAt(1) }),
  keep('hook', 'POST', '/v2/webhooks', () => ({ target_url: 'http://127.0.0.1:1/', sources: ['patient'] })),
  keep('patient', 'POST', '/v2/patients', ({ team }) => ({
    first_name: team,
    last_name: 'A',
    email: 'a@b.de',
  })),
  async ({ emulator, team }) => {
    await emulator.control.webhooks(team).idle()
    const { pending, retrying } = emulator.control.webhooks(team)
    return { pending, retrying }
  },
  async (place) => {
    const { id, ...counts } = await upload(place, 'B,C\nD,E\n')
    place.ids.upload = id
    return [id, counts]
  },
  keep('', 'GET', '/v2/patients/batch-upload/$upload', () => undefined),
  later(50),
  keep('', 'GET', '/v2/patients/batch-upload/$upload', () => undefined),
  (place) => worldOf(place).patients.slice(0, 3, true),
  keep('message', 'POST', '/v2/messages', (place) => ({
    ...{
      patient: place.ids.patient,
      packet: worldOf(place).packets.at(0)!.id,
      form: worldOf(place).forms.at(1)!.id,
    },
    preferred_delivery_method: 'email',
  })),
  later(4950),
  (place) => worldOf(place).responses.slice(0, 4, true),
  (place) => place.emulator.control.webhooks(place.team).idle(),
  async ({ caller }) => {
    const { results } = (await caller.get('/v2/webhooks/events')).body
    return results.map(({ id: _, event_id: __, ...rest }: Loose) => JSON.stringify(rest)).toSorted()
  },
  (place) => {
    const staff = place.emulator.control.staff(place.team)
    const open = worldOf(place)
      .responses.slice(0, 99, true)
      .find(({ packet }) => packet === null)!
    const packet = worldOf(place).packetResponses.slice(0, 1, true)[0]!
    return [
      staff.answer(open.id),
      staff.submit(open.id),
      staff.advancePacket(packet.id),
      staff.submitPacket(packet.id),
    ]
  },
  (place) => place.caller.get(`/v2/responses?form=${worldOf(place).forms.at(1)!.id}`),
  get('/v2/responses?submitted_after=2025-06-01'),
  (place) => place.caller.send('POST', '/v2/export-csv', { id: worldOf(place).seed.exportIds.idAt(1) }),
  (place) => place.caller.get(`/_control/packet-responses?team=${encodeURIComponent(place.team)}`, {}),
  keep('', 'DELETE', '/v2/patients/$patient', () => undefined),
  keep('', 'PATCH', '/v2/webhooks/$hook', () => ({ is_active: false })),
  get('/v2/webhooks'),
  (place) => {
    const { control } = place.emulator
    const form = control.addForm({ name: place.team, questions: [{ type: 'date', text: 'Q' }] }, place.team)
    control.deleteForm(worldOf(place).forms.at(2)!.id, place.team)
    return form
  },
  get('/v2/export-csv?page=last'),
  get('/v2/packets'),
  get('/v2/messages?delivery_method=email'),
  ({ emulator, team }) => emulator.control.counters(team),
]

/** What each team sees of each step, the addresses of the emulators aside. */
async function play(places: readonly Place[]): Promise<string[][]> {
  const seen: string[][] = places.map(() => [])
  for (const step of STEPS) {
    if (typeof step !== 'function') {
      for (const { emulator, team } of places) await emulator.control.webhooks(team).idle()
      for (const emulator of new Set(places.map((one) => one.emulator)))
        emulator.control.advance(step.milliseconds)
      for (let left = 20; left > 0; left -= 1) await turn()
      continue
    }
    for (const [at, place] of places.entries()) {
      const result = (await step(place)) as Loose
      const shown =
        result?.headers === undefined ? result : [result.status, result.headers.get('date'), result.text]
      const text = JSON.stringify(shown) ?? ''
      seen[at]!.push(
        place.emulator.environments.reduce((rest, { base_url }) => rest.replaceAll(base_url, ''), text),
      )
    }
  }
  return seen
}

function placeOf(emulator: Emulator, environment: number, team: number): Place {
  const { name } = emulator.environments[environment]!.teams[team]!
  return { emulator, caller: callerOf(emulator, environment, team), team: name, ids: {} }
}

it('each has the answers that it has alone', async () => {
  await using own = await startEmulator(OWN)
  await using other = await startEmulator(OTHER)
  const places = [placeOf(own, 0, 0), placeOf(other, 0, 0), placeOf(own, 0, 1), placeOf(own, 1, 0)]
  const together = await play(places)
  for (const [at, { team }] of places.entries()) {
    await using alone = await startEmulator(at === 1 ? OTHER : OWN)
    const [environment, which] = [
      [0, 0],
      [0, 0],
      [0, 1],
      [1, 0],
    ][at] as [number, number]
    const [expected] = await play([placeOf(alone, environment, which)])
    expect([team, together[at]]).toEqual([team, expected])
  }
  // Nobody refused them, so that there was something to compare.
  for (const answers of together) expect(answers.filter((text) => /^\[(?!20)\d+,/.test(text))).toEqual([])
  expect(new Set(together.map((answers) => answers[0])).size).toBe(4)
})
