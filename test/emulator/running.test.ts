import { createServer } from 'node:net'
import { describe, expect, it } from 'vitest'
import { stamp } from '../../src/emulator/clock.ts'
import { type EmulatorOptionError, startEmulator } from '../../src/emulator/server.ts'
import { openResponse } from '../../src/emulator/world/clinic-responses.ts'
import { callerOf } from './caller.ts'

describe('activity', () => {
  it('creates, changes and deletes records of the first team only, at about the requested rate, and stops with the emulator', async () => {
    const emulator = await startEmulator({ port: 0, patients: 100, activity: 400 })
    const world = emulator.control.world()
    const types: string[] = []
    const others: string[] = []
    const teams = emulator.environments.flatMap((one) => one.teams.map(({ name }) => name))
    for (const name of teams.slice(1))
      emulator.control.world(name).subscribe(({ source }) => others.push(`${name}: ${source}`))
    world.subscribe(({ type }) => types.push(type))
    await expect.poll(() => types.length).toBeGreaterThan(100)
    expect(new Set(types)).toEqual(new Set(['created', 'updated', 'deleted']))
    const rows = await callerOf(emulator).rows('/v2/patients?page_size=1000')
    expect(new Set(rows.map(({ id }) => id)).size).toBe(rows.length)
    await emulator.close()
    expect(others).toEqual([])
    const { length } = types
    await new Promise((resolve) => setTimeout(resolve, 100))
    expect(types).toHaveLength(length)
  })

  it('is off unless requested', async () => {
    await using emulator = await startEmulator({ port: 0, patients: 5 })
    const before = await callerOf(emulator).rows('/v2/patients')
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(await callerOf(emulator).rows('/v2/patients')).toEqual(before)
  })
})

describe('the handle of a test', () => {
  it('changes what callers see, with stamps of now', async () => {
    await using emulator = await startEmulator({ port: 0, patients: 2 })
    const { control } = emulator
    const caller = callerOf(emulator)
    const before = Date.now()
    const made = control.createPatient({ first_name: 'New', last_name: 'One' })
    expect((await caller.get(`/v2/patients/${made.id}`)).body).toEqual(made)
    const changed = control.updatePatient(made.id, { city: 'Ulm' })
    expect((await caller.get(`/v2/patients/${made.id}`)).body).toEqual({ ...changed, city: 'Ulm' })
    expect(changed.updated_at > made.updated_at).toBe(true)
    control.deletePatient(made.id)
    expect((await caller.get(`/v2/patients/${made.id}`)).status).toBe(404)
    const form = control.addForm({
      name: 'Extra',
      questions: [{ type: 'single_choice', text: 'Q', choices: ['a'] }],
    })
    const question = form.questions[0]!
    control.renameQuestion(form.id, question.id, 'Q, reworded')
    const { body } = await caller.get(`/v2/forms/${form.id}`)
    expect(body.questions).toEqual([{ ...question, text: 'Q, reworded' }])
    expect(Date.parse(body.updated_at)).toBeGreaterThanOrEqual(before - 1000)
    control.deleteForm(form.id)
    expect((await caller.get(`/v2/forms/${form.id}`)).status).toBe(404)
  })

  it('refuses what there is not', async () => {
    await using emulator = await startEmulator({ port: 0, patients: 1 })
    const { control } = emulator
    const form = control.addForm({ name: 'Extra' })
    for (const refused of [
      () => control.updatePatient('nobody', {}),
      () => control.deletePatient('nobody'),
      () => control.renameForm('none', 'x'),
      () => control.renameQuestion(form.id, 'none', 'x'),
      () => control.deleteForm('none'),
      () => control.failNext('/v2/forms', ''),
      () => control.setFaults('nonsense'),
      () => control.advance(-1),
    ])
      expect(refused).toThrow(RangeError)
    const post = (body: unknown) => callerOf(emulator).send('POST', '/_control/faults', body, {})
    for (const body of ['{', '{}', '7', 'null', { faults: 7 }]) expect((await post(body)).status).toBe(400)
    expect((await post('"slow=0.5"')).body).toEqual({ faults: ['slow=0.5'] })
    expect(control.faults()).toMatchObject([{ name: 'slow' }])
  })

  it('has one staff for each team, whose invented answers have ids of their own', async () => {
    await using emulator = await startEmulator({ port: 0, patients: 2, responses: 0 })
    const { control, environments } = emulator
    const answered = () => {
      const { patients, forms } = control.world()
      const nothing = { packet: null, document: null, message: null, packet_response: null }
      const asked = { ...nothing, patient: patients.at(0)!.id, form: forms.at(0)!.id }
      return control
        .staff()
        .answer(openResponse(control.world(), asked).id)
        .answers.map(({ id }) => id)
    }
    const ids = [...answered(), ...answered()]
    expect(new Set(ids).size).toBe(ids.length)
    expect(control.staff(environments[0]!.teams[0]!.name)).toBe(control.staff())
    expect(control.staff(environments[0]!.teams[1]!.name)).not.toBe(control.staff())
  })

  it('shows a renamed form under its new name in every packet that holds it', async () => {
    await using emulator = await startEmulator({ port: 0 })
    const caller = callerOf(emulator)
    const [packet] = await caller.rows('/v2/packets')
    emulator.control.renameForm(packet.forms[0].id, 'Renamed')
    expect((await caller.get(`/v2/packets/${packet.id}`)).body.forms[0].name).toBe('Renamed')
  })

  it('acts in the team that is named, in everything that it does, and in no other', async () => {
    await using emulator = await startEmulator({ port: 0, patients: 2, responses: 30 })
    const { control, environments } = emulator
    const names = environments.flatMap(({ teams }) => teams.map(({ name }) => name))
    const seen: string[] = []
    for (const name of names)
      control.world(name).subscribe(({ source, type }) => void seen.push(`${name}: ${source} ${type}`))
    for (const [at, name] of names.entries()) {
      seen.length = 0
      const { id } = control.createPatient({ first_name: 'A', last_name: 'B' }, name)
      control.updatePatient(id, { city: 'Ulm' }, name)
      control.deletePatient(id, name)
      const form = control.addForm({ name: 'F', questions: [{ type: 'date', text: 'Q' }] }, name)
      control.renameForm(form.id, 'G', name)
      control.renameQuestion(form.id, form.questions[0]!.id, 'R', name)
      control.deleteForm(form.id, name)
      control.staff(name).archivePacket(control.world(name).packetResponses.at(0)!.id)
      const changes = ['patient', 'form'].map((source) =>
        ['created', 'updated', 'deleted'].map((type) => `${source} ${type}`),
      )
      const [people, forms] = changes as [string[], string[]]
      expect(seen).toEqual(
        [...people, forms[0], forms[1], forms[1], forms[2], 'packet_response updated'].map(
          (what) => `${name}: ${what}`,
        ),
      )
      await callerOf(emulator, Math.floor(at / 2), at % 2).get('/v2/forms')
      expect(names.map((each) => control.counters(each).requests)).toEqual(
        names.map((_, nth) => (nth <= at ? 1 : 0)),
      )
      expect(control.webhooks(name)).not.toBe(control.webhooks(names[(at + 1) % 4]))
    }
    expect(control.world()).toBe(control.world(names[0]))
    expect(control.webhooks()).toBe(control.webhooks(names[0]))
  })

  it('reaches another team by its name, and only that team', async () => {
    await using emulator = await startEmulator({ port: 0, patients: 1 })
    const { name } = emulator.environments[1]!.teams[1]!
    const made = emulator.control.createPatient({ first_name: 'A', last_name: 'B' }, name)
    expect((await callerOf(emulator, 1, 1).get(`/v2/patients/${made.id}`)).status).toBe(200)
    expect((await callerOf(emulator).get(`/v2/patients/${made.id}`)).status).toBe(404)
    expect(() => emulator.control.world('nobody')).toThrow(RangeError)
    // Both environments offer the control, and the description.
    for (const path of ['/_control/faults', '/_control/packet-responses', '/openapi.json'])
      for (const at of [0, 1]) expect((await callerOf(emulator, at).get(path, {})).status).toBe(200)
  })
})

describe('time', () => {
  it('runs faster by the scale, in stamps and in the Date header', async () => {
    let now = Date.parse('2026-03-01T00:00:00Z') * 1000
    const clock = { now: () => now, sleep: async () => {} }
    await using emulator = await startEmulator({ port: 0, patients: 1, timeScale: 3600, clock })
    now += 10_500_001
    const made = emulator.control.createPatient({ first_name: 'A', last_name: 'B' })
    expect(made.created_at).toBe('2026-03-01T10:30:00.003600Z')
    expect((await callerOf(emulator).get('/v2/forms')).headers.get('date')).toBe(
      'Sun, 01 Mar 2026 10:30:00 GMT',
    )
  })

  it('is wrong from the start where that fault is given at the start', async () => {
    const clock = { now: () => Date.parse('2026-03-01T00:00:00Z') * 1000, sleep: async () => {} }
    await using emulator = await startEmulator({ port: 0, patients: 1, clock, faults: 'clock-skew=-90.5' })
    expect(emulator.control.world().now()).toBe('2026-02-28T23:58:29.500000Z')
  })

  it('is written with microseconds, or without a fraction if it has none', () => {
    expect([
      stamp(1_700_000_000_000_001),
      stamp(1_700_000_000_120_000),
      stamp(1_700_000_000_000_000),
    ]).toEqual(['2023-11-14T22:13:20.000001Z', '2023-11-14T22:13:20.120000Z', '2023-11-14T22:13:20Z'])
  })
})

describe('addresses', () => {
  it('are a port and the next; a port in use is wrong usage, and nothing keeps listening', async () => {
    // Below the ports that systems lend to whoever connects: nobody takes its neighbour by chance.
    const port = 21_000 + (process.pid % 5_000) * 2
    const taken = createServer().listen(port, '127.0.0.1')
    await new Promise((resolve, reject) => taken.once('listening', resolve).once('error', reject))
    const error = await startEmulator({ port: port - 1 }).catch((thrown: unknown) => thrown)
    expect((error as EmulatorOptionError).option).toBe('port')
    expect((error as Error).message).toContain(`port ${port} is in use`)
    await new Promise((resolve) => taken.close(resolve))
    await using emulator = await startEmulator({ port: port - 1 })
    expect(emulator.environments.map((one) => one.base_url)).toEqual([
      `http://127.0.0.1:${port - 1}`,
      `http://127.0.0.1:${port}`,
    ])
  })
})

it.each([
  ['patients', { patients: 0, responses: 1 }],
  ['forms and documents', { forms: 0, documents: 0, packets: 0, responses: 1 }],
])(
  'a world without %s has no responses, and one that was asked for them is refused',
  async (_what, options) => {
    const { responses: _asked, ...silent } = options
    await using emulator = await startEmulator({ port: 0, ...silent })
    expect((await callerOf(emulator).get('/v2/responses')).body.count).toBe(0)
    await expect(startEmulator({ port: 0, ...options })).rejects.toThrow('--responses: needs patients')
  },
)
