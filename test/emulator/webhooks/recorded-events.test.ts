/**
 * Compares the webhooks of a session of changes, and the answers to it, with test/emulator/recorded: what a receiver gets
 * for each change, whoever makes it. After an intended change, `npx vitest run test/emulator/webhooks/recorded-events.test.ts -u`
 * updates the recording; read the difference before you commit it.
 */
import { createHash, createHmac } from 'node:crypto'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { startEmulator } from '../../../src/emulator/server.ts'
import { callerOf, type Loose, parsed } from '../caller.ts'
import { answering, startReceiver } from '../receiver.ts'
import { stillClock } from '../still-clock.ts'

const RECORDED = join(import.meta.dirname, '..', 'recorded', 'events.txt')

const digestOf = (value: unknown) =>
  createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 8)
/** Lists that are long where their content is not the subject. */
const LONG = new Set(['questions', 'answers', 'matrix_cells', 'files', 'e_signatures', 'input_fields'])
/** JSON with long lists as their length and a digest. */
const brief = (value: unknown) =>
  JSON.stringify(value, (name, one: unknown) =>
    LONG.has(name) && Array.isArray(one) && one.length > 0 ? `${one.length}, ${digestOf(one)}` : one,
  )

it('each change reaches each configuration that selects it, signed, with the record as it is then', async () => {
  await using receiver = await startReceiver()
  const sizes = { patients: 2, forms: 3, packets: 1, documents: 1, responses: 2 }
  await using emulator = await startEmulator({ port: 0, clock: stillClock, ...sizes })
  const { control } = emulator
  const { send, get, credentials } = callerOf(emulator)
  const world = control.world()
  const lines: string[] = []
  const secrets = new Map<string, string>()
  /** Random ids of events, by their place among all. */
  const places = new Map<string, string>()
  const named = (id: string) => places.get(id) ?? id
  const origins = emulator.environments.map(({ base_url }) => base_url)

  /** Everything that was delivered since the last call, in an order that does not depend on connections. */
  async function delivered(): Promise<void> {
    await control.webhooks().idle()
    const texts = receiver.deliveries.splice(0).map(({ method, path, headers, bytes, event }) => {
      const signature = headers['x-service-signature']
      const signer = [...secrets].find(
        ([, secret]) => createHmac('sha256', secret).update(bytes).digest('hex') === signature,
      )?.[0]
      const { id, data, ...rest } = event
      return { id, text: `  ${method} ${path}, signed by ${signer}: ${brief({ ...rest, data })}` }
    })
    for (const { id, text } of texts.toSorted((a, b) => (a.text < b.text ? -1 : 1))) {
      if (!places.has(id)) places.set(id, `event ${places.size + 1}`)
      lines.push(`${text} ${named(id)}`)
    }
  }

  async function call(method: string, path: string, body?: unknown, headers = {}): Promise<Loose> {
    const reply = await send(method, path, body, { ...credentials, ...headers })
    const text = origins.reduce((rest, origin) => rest.replaceAll(origin, ''), reply.text)
    const { signature_secret: secret, ...shown } = parsed(text) ?? {}
    const answered = text === '' ? '' : brief(shown).replaceAll(receiver.url, '/hooks')
    lines.push(
      `${method} ${path} ${body === undefined ? '' : JSON.stringify(body)}`
        .trim()
        .replaceAll(receiver.url, '/hooks'),
    )
    lines.push(`  ${reply.status} ${answered}`)
    if (secret !== undefined) secrets.set(`configuration ${secrets.size + 1}`, secret)
    return parsed(text)
  }
  const step = async (method: string, path: string, body?: unknown, headers = {}): Promise<Loose> => {
    const answer = await call(method, path, body, headers)
    await delivered()
    return answer
  }
  const staffStep = async (what: string, act: () => unknown) => {
    act()
    lines.push(what)
    await delivered()
  }
  const later = (milliseconds: number) =>
    staffStep(`${milliseconds} ms later`, async () => control.advance(milliseconds)).then(async () => {
      for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve))
      await delivered()
    })

  const all = await step('POST', '/v2/webhooks', { target_url: `${receiver.url}/all?x=1` })
  const deletions = { event_types: ['deleted'], sources: ['patient', 'form', 'response'] }
  await step('POST', '/v2/webhooks', { target_url: `${receiver.url}/deletions`, ...deletions })
  const documents = { sources: ['document'], event_types: ['updated'] }
  await step(
    'POST',
    '/v2/webhooks',
    { target_url: `${receiver.url}/documents`, ...documents },
    { 'X-API-VERSION': 'v2.1' },
  )

  const { id: patient } = await step('POST', '/v2/patients', { first_name: 'New', last_name: 'Person' })
  await step('PATCH', `/v2/patients/${patient}`, { city: 'Ulm' })
  await step('PUT', `/v2/patients/${patient}`, { first_name: 'Whole', last_name: 'Person' })
  const { id: other } = await step('POST', '/v2/patients', { first_name: 'Short', last_name: 'Stay' })
  await step('DELETE', `/v2/patients/${other}`)
  await step('PATCH', `/v2/patients/${patient}`, { email: 'none' })

  const [form, packet, document] = [world.forms.at(0)!, world.packets.at(0)!, world.documents.at(0)!]
  const questions = [{ type: 'single_choice', text: 'Q', choices: ['a', 'b'] }] as const
  let added = form
  await staffStep('a form is added', () => {
    added = control.addForm({ name: 'Added', questions })
  })
  await staffStep('it is renamed', () => control.renameForm(added.id, 'Renamed'))
  await staffStep('its question is reworded', () =>
    control.renameQuestion(added.id, added.questions[0]!.id, 'R'),
  )
  await staffStep('it is deleted', () => control.deleteForm(added.id))
  await staffStep('a packet is changed', () =>
    world.packets.update(packet.id, (old) => ({ ...old, text: 'P' })),
  )
  await staffStep('a document is changed', () =>
    world.documents.update(document.id, (old) => ({ ...old, text: 'D' })),
  )

  const asked = { patient, message_type: 'form_response_request', preferred_delivery_method: 'email' }
  const target_email = 'a@example.com'
  await step('POST', '/v2/messages', { ...asked, target_email, packet: packet.id })
  await later(1000)
  const [opened] = (await call('GET', '/_control/packet-responses')).results
  await step('POST', `/_control/packet-responses/${opened.id}/advance`)
  await step('POST', `/_control/packet-responses/${opened.id}/submit`, { skip: [opened.responses.length] })
  await step('POST', `/_control/packet-responses/${opened.id}/submit`)
  await step('POST', `/_control/packet-responses/${opened.id}/archive`)

  await step('POST', '/v2/messages', { ...asked, target_email, form: form.id, document: document.id })
  await later(1000)
  const [filled, signed] = world.responses.slice(0, 2, true).map(({ id }) => id)
  await step('POST', `/_control/responses/${filled}/answers`)
  await step('POST', `/_control/responses/${filled}/submit`)
  await step('POST', `/_control/responses/${filled}/archive`)
  await step('POST', `/_control/responses/${signed}/answers`, { answers: { nothing: 'x' } })
  await step('DELETE', `/_control/responses/${signed}`)
  await step('POST', '/v2/messages', { ...asked, target_email: 'gone@nowhere.invalid', form: form.id })
  await later(1000)

  await step('POST', '/v2/webhooks/events/test', { id: all.id })
  await step('PATCH', `/v2/webhooks/${all.id}`, { sources: ['form'] })
  await step('PATCH', `/v2/patients/${patient}`, { city: 'Bonn' })
  await step('PATCH', `/v2/webhooks/${all.id}`, { sources: ['patient'], is_active: false })
  await step('PATCH', `/v2/patients/${patient}`, { city: 'Trier' })
  await step('PUT', `/v2/webhooks/${all.id}`, { target_url: `${receiver.url}/moved` })

  receiver.answer = answering(500)
  await step('PATCH', `/v2/patients/${patient}`, { city: 'Kiel' })
  await step('GET', '/_control/webhooks')
  await later(4_999)
  receiver.answer = answering(204)
  await staffStep('the patient changes', () => control.updatePatient(patient, { city: 'Jena' }))
  await later(1)
  await step('GET', '/_control/webhooks')
  for (const query of [
    'status=failed',
    'status=succeeded&event_type=deleted',
    'source=packet_response',
    'source=x',
  ])
    lines.push(`${query}: ${(await get(`/v2/webhooks/events?${query}`)).body.count}`)
  const { results } = (await get('/v2/webhooks/events?page_size=1000')).body
  const attempts = results.map(
    ({ id: _, event_id, ...rest }: Loose) => `  ${named(event_id)} ${JSON.stringify(rest)}`,
  )
  lines.push('attempts', ...attempts.toSorted())
  await step('DELETE', `/v2/webhooks/${all.id}`)
  await step('DELETE', `/v2/patients/${patient}`)
  const text = [...places].reduce((rest, [id, place]) => rest.replaceAll(id, place), lines.join('\n'))
  await expect(`${text}\n`).toMatchFileSnapshot(RECORDED)
})
