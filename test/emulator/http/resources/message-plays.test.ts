/**
 * Compares what becomes of messages that are created, changed, cancelled and overtaken by other changes with
 * test/emulator/recorded. After an intended change, `npx vitest run test/emulator/http/resources/message-plays.test.ts -u`
 * updates the recording; read the difference before you commit it.
 */
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { startEmulator } from '../../../../src/emulator/server.ts'
import { callerOf, type Loose } from '../../caller.ts'
import { stillClock } from '../../still-clock.ts'

const RECORDED = join(import.meta.dirname, '..', '..', 'recorded', 'messages.txt')

/**
 * One message each: `new`, `put`, `patch` with a body, `delete`; a number of milliseconds; `lose` and `rename` what it refers to.
 * Bodies are written without quotes; a time is that many seconds after the start.
 */
const PLAYS = `
new form:FORM | 199 | 1 | put target_email:late@b.de | patch status:cancelled | delete
new packet:PACKET,preferred_delivery_method:sms | 200 | delete
new document:DOCUMENT,target_email:x@b.de | 200
new form:FORM,packet:PACKET,document:DOCUMENT | 200
new form:FORM,target_email:x@b.invalid | 200 | put target_email:x@b.de
new form:FORM,target_email:x@b.INVALID | 200
new form:FORM,target_email:x@invalid.de | 200
new form:FORM,preferred_delivery_method:sms,target_email:x@b.invalid | 200
new form:FORM,message_type:reminder,target_phone:7 | put message_type:other | 200
new form:UPPER,preferred_delivery_method:sms,target_email:,phone_number:7 | put target_email:x@b.de | put target_email: | 200
new form:FORM,target_phone_number: | put form:UPPER,target_phone: | put target_phone:7 | put target_phone:null | 200
new form:FORM,scheduled_at:10 | 9999 | 1 | delete
new form:FORM,scheduled_at:0 | 199 | 1
new form:FORM,scheduled_at:-10 | put scheduled_at:10 | 200 | 9800
new form:FORM,scheduled_at:10 | put scheduled_at:5 | 5000 | 5000
new form:FORM,scheduled_at:10 | put scheduled_at:20 | 10000 | put scheduled_at:30 | 10000 | 10000
new form:FORM,scheduled_at:10 | put scheduled_at:20 | put scheduled_at:10 | 10000 | 10000
new form:FORM,scheduled_at:10 | put scheduled_at:null | 200 | 9800
new form:FORM,scheduled_at:10 | put scheduled_at:-5 | 200 | 9800
new form:FORM,scheduled_at:10 | patch scheduled_at:20,target_email:x@b.de,form:OTHER | 10000 | 10000
new form:FORM,scheduled_at:10 | patch scheduled_at:null | 200
new form:FORM,scheduled_at:10 | patch status:cancelled | put form:OTHER | patch status:cancelled | delete | 10000
new form:FORM,scheduled_at:10 | delete | patch scheduled_at:20 | 10000
new form:FORM,scheduled_at:10 | patch status:null | patch status:sent,scheduled_at:20 | patch status: | 10000
new form:FORM | patch status:cancelled | patch scheduled_at:10 | delete | 200
new form:FORM | 100 | put target_email:x@b.de | 99 | 1 | 100
new form:FORM | put form:OTHER | put form:null,packet:PACKET | put document:DOCUMENT | 200
new form:FORM | put packet:PACKET | put form:null | put packet:null | 200
new packet:PACKET | put form:null | put packet:,form:OTHER | 200
new form:FORM | put patient:SECOND | 200
new form:FORM | put patient:SILENT | put patient:SECOND,preferred_delivery_method:sms | 200
new form:FORM,patient:SILENT | new form:FORM,patient:SILENT,target_email:x@b.de | put target_email:null | put target_email: | 200
new form:FORM,patient:SILENT,target_email:x@b.de | put preferred_delivery_method:sms | put preferred_delivery_method:sms,phone_number:8 | 200
new form:FORM,preferred_delivery_method:sms | put preferred_delivery_method:email | put target_email:x@b.de,target_phone_number:9 | 200
new form:FORM | put target_email:none | put preferred_delivery_method:fax | put form:nothing | put patient:null | put scheduled_at:soon | put message_type: | 200
new form:FORM | lose patient | put target_email:x@b.de | 200
new form:FORM,scheduled_at:10 | lose patient | 10000 | delete
new form:FORM | lose form | put target_email:x@b.de | 200
new form:FORM,scheduled_at:10 | rename form | 10000
new packet:PACKET | lose form | 200
new packet:PACKET | lose packet | 200
new document:DOCUMENT | lose document | put target_email:x@b.de | 200
new form:FORM,document:DOCUMENT | lose form | put message_type:x | 200
`

it('a message is what it was after each step, and asks for the same responses', async () => {
  const sizes = { patients: 1, forms: 1, packets: 1, documents: 1, responses: 0 }
  await using emulator = await startEmulator({ port: 0, clock: stillClock, ...sizes })
  const { control } = emulator
  const { send, get } = callerOf(emulator)
  const world = control.world()
  const lines: string[] = []
  for (const play of PLAYS.trim().split('\n')) {
    const own = { email: 'own@b.de', phone_number: '55501' }
    const make = (first_name: string, fields = {}) =>
      control.createPatient({ first_name, last_name: 'Lee', ...fields }).id
    const [patient, second] = [make('Ann', own), make('Bob', { email: 'bob@b.de', phone_number: '55502' })]
    const [form, other] = ['Form', 'Other'].map((name) => control.addForm({ name }).id) as [string, string]
    const times = { created_at: world.now(), updated_at: world.now() }
    const packet = world.packets.create((id) => ({
      ...{ id, name: 'Packet', text: '', forms: [form, other], ...times },
    })).id
    const document = world.documents.create((id) => ({
      ...{ id, name: 'Document', text: '', input_fields: [], ...times },
    })).id
    const names: Record<string, string> = {
      ...{ FORM: form, OTHER: other, PACKET: packet, DOCUMENT: document },
      ...{ PATIENT: patient, SECOND: second, SILENT: make('Cy'), UPPER: form.toUpperCase() },
    }
    const start = Date.parse(world.now())
    const meant = (name: string, text: string) => {
      if (text === 'null') return null
      const time = name === 'scheduled_at' && /^-?\d+$/.test(text)
      return time ? new Date(start + Number(text) * 1000).toISOString() : (names[text] ?? text)
    }
    const bodyOf = (text: string) =>
      Object.fromEntries(
        text.split(',').map((field) => {
          const [name, ...rest] = field.split(':') as [string, ...string[]]
          return [name, meant(name, rest.join(':'))]
        }),
      )
    let id = ''
    let before: Loose = { responses: 0, packets: 0 }
    const had = [world.responses.size, world.packetResponses.size] as const
    /** Stamps as milliseconds since the start of the play. */
    const relative = (text: string) =>
      text.replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, (time) => `${Date.parse(time) - start} ms`)
    const step = async (text: string): Promise<unknown> => {
      const [verb = '', argument = ''] = text.split(' ')
      if (/^\d+$/.test(verb)) return control.advance(Number(verb))
      if (verb === 'rename') return control.renameForm(form, 'Renamed')
      if (verb === 'lose')
        return world[`${argument as 'form'}s`].remove({ patient, form, packet, document }[argument]!)
      if (verb === 'delete') return (await send('DELETE', `/v2/messages/${id}`)).status
      const method = { new: 'POST', put: 'PUT', patch: 'PATCH' }[verb]!
      const path = { new: '', put: `/${id}`, patch: `/${id}/scheduled` }[verb]!
      const usual = verb === 'new' ? { patient, preferred_delivery_method: 'email' } : {}
      const reply = await send(method, `/v2/messages${path}`, { ...usual, ...bodyOf(argument) })
      if (reply.status === 201) id = reply.body.id
      return reply.status
    }
    lines.push(`# ${play}`)
    for (const text of play.split(' | ')) {
      const result = await step(text)
      for (let left = 12; left > 0; left -= 1) await turn()
      const { id: _, ...shown } = (await get(`/v2/messages/${id}`)).body
      const sizes = { responses: world.responses.size - had[0], packets: world.packetResponses.size - had[1] }
      const now = { ...shown, ...sizes }
      const changed = Object.entries(now).filter(
        ([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name]),
      )
      const status = typeof result === 'number' && text !== String(result) ? ` ${result}` : ''
      lines.push(`${text}:${status} ${relative(JSON.stringify(Object.fromEntries(changed)))}`)
      before = now
    }
    const asked = world.responses.slice(had[0], 9).map((one) => {
      const about = [one.patient, one.form, one.packet, one.document].map(
        (id) => Object.entries(names).find(([, own]) => own === id)?.[0] ?? (id === null ? '' : 'another'),
      )
      return relative([...about, one.form_name, one.created_at].join(' ').trim())
    })
    lines.push(...asked.map((one) => `  asked: ${one}`), '')
  }
  const text = lines.join('\n').replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'ID')
  await expect(text).toMatchFileSnapshot(RECORDED)
})
