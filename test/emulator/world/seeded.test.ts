/** The records of a seeded world agree with each other, whatever its size; and heads agree with whole responses. */
import { describe, expect, it } from 'vitest'
import { readStamp, ServiceClock, Timeline } from '../../../src/emulator/clock.ts'
import type { Message, PacketResponse, Response } from '../../../src/emulator/world/records.ts'
import { seededHead } from '../../../src/emulator/world/seeded/open-seed.ts'
import { World } from '../../../src/emulator/world/world.ts'

function worldOf(responses: number, sizes: object = {}): World {
  const clock = { now: () => 1_772_323_200_000_000, sleep: () => new Promise<void>(() => {}) }
  const service = new ServiceClock(clock, 1)
  const all = { patients: 9, forms: 12, packets: 4, documents: 4, responses, ...sizes }
  const nobody = { patients: [], forms: [], surveys: [] }
  return new World(['seeded', responses], all, nobody, service, new Timeline(service, clock))
}

describe.each([5, 30, 160])('a world of %i responses', (size) => {
  const world = worldOf(size)
  const [responses, messages, packets] = [
    world.responses.slice(0, 1000),
    world.messages.slice(0, 1000),
    world.packetResponses.slice(0, 1000),
  ] as const
  const sentOf = (message: Message) => responses.filter((one) => one.message === message.id)

  it('has as many responses, and visits at times of their own', () => {
    expect(responses).toHaveLength(size)
    const times = messages.map(({ created_at }) => created_at)
    expect(new Set(times).size).toBe(times.length)
  })

  it('has messages whose times fit their status, each to one address', () => {
    for (const message of messages) {
      const { status, sent_at, created_at, updated_at, preferred_delivery_method: method } = message
      expect([status, sent_at !== null]).toEqual([status, status === 'sent'])
      expect(updated_at).toBe(sent_at ?? created_at)
      expect(readStamp(updated_at)!).toBeGreaterThanOrEqual(readStamp(created_at)!)
      if (status === 'scheduled') expect(message.scheduled_at).toBe('2099-01-01T09:00:00Z')
      else expect([null, sent_at, message.scheduled_at]).toContain(message.scheduled_at)
      const [address, other] = [message.target_email, message.target_phone_number]
      expect([method, address !== null, other !== null]).toEqual([
        method,
        method === 'email',
        method === 'sms',
      ])
    }
  })

  it('has responses of its messages, to the same patient, opened when they were sent', () => {
    for (const message of messages) {
      const { form, packet, document, patient } = message
      const name = [form, packet, document].filter((id) => id !== null)
      expect(name).toHaveLength(1)
      const own = sentOf(message)
      expect(own.length > 0).toBe(message.status === 'sent')
      for (const one of own) {
        expect([one.patient, one.packet, one.document]).toEqual([patient, packet, document])
        if (packet === null) expect(one.form).toBe(form)
        expect(one.created_at).toBe(message.sent_at)
      }
    }
    for (const { message } of responses)
      if (message !== null) expect(world.messages.get(message)).toBeDefined()
  })

  const timesOf = (one: Response | PacketResponse) =>
    [one.created_at, one.submitted_at ?? one.created_at, one.updated_at].map((text) => readStamp(text)!)

  it('has responses in the order of their times; what is submitted has a time', () => {
    for (const one of [...responses, ...packets]) {
      const times = timesOf(one)
      expect(times).toEqual(times.toSorted((a, b) => a - b))
      expect(one.submitted_at !== null).toBe(one.is_submitted)
      if (one.is_archived) expect(one.is_submitted).toBe(true)
    }
    for (const one of responses) {
      const [created, submitted, updated] = timesOf(one) as [number, number, number]
      if (one.is_submitted) expect(submitted).toBeGreaterThan(created)
      if (one.is_archived) expect(updated).toBeGreaterThan(submitted)
      else if (one.is_submitted) expect(updated).toBe(submitted)
      const given = [one.answers, one.matrix_cells, one.files, one.e_signatures].flat().length
      if (one.is_skipped) expect(given).toBe(0)
      else if (one.is_submitted && one.form !== null) expect(given).toBeGreaterThan(0)
    }
  })

  it('has packets whose members are the responses to its forms, in their order, submitted with it', () => {
    for (const one of packets) {
      const members = one.responses.map((id) => world.responses.get(id)!)
      const { forms } = world.packets.get(one.packet)!
      expect(members.map(({ form }) => form)).toEqual(forms)
      for (const member of members) {
        expect([member.packet, member.packet_response]).toEqual([one.packet, one.id])
        expect([member.is_submitted, member.submitted_at]).toEqual([one.is_submitted, one.submitted_at])
      }
      if (one.is_submitted) expect(one.form_index).toBe(members.length)
      else expect([null, 1]).toContain(one.form_index)
      if (one.form_index === 1 && !one.is_submitted) {
        expect(one.updated_at > one.created_at).toBe(true)
        expect(members[0]!.updated_at).toBe(one.updated_at)
        expect(members.map(({ answers }) => answers.length > 0)).toEqual(members.map((_, at) => at === 0))
      }
      if (one.form_index === null) expect(one.updated_at).toBe(one.created_at)
    }
    const ids = responses.flatMap(({ packet_response }) => packet_response ?? [])
    expect(new Set(ids)).toEqual(new Set(packets.map(({ id }) => id)))
  })

  it('has heads that are those of its responses', () => {
    const { patients, forms, packets: all, seed } = world
    responses.forEach((one, index) => {
      const { patient, form, packet, submitted, skipped } = seededHead(seed, index)
      expect(patients.ids.idAt(patient)).toBe(one.patient)
      expect(form === null ? null : forms.ids.idAt(form)).toBe(one.form)
      expect(packet === null ? null : all.ids.idAt(packet)).toBe(one.packet)
      expect(submitted).toBe(one.submitted_at === null ? null : readStamp(one.submitted_at)!)
      expect(skipped).toBe(one.is_skipped)
    })
  })

  it('has answers to questions of the form, in its order and words, with choices and columns of it', () => {
    const ids: string[] = []
    const ticks: (string | null)[] = []
    let [signed, asked] = [0, 0]
    for (const one of responses) {
      const form = one.form === null ? undefined : world.forms.get(one.form)!
      ids.push(...[...one.answers, ...one.files, ...one.e_signatures].map(({ id }) => id))
      const { first_name, last_name } = world.patients.get(one.patient)!
      for (const signature of one.e_signatures)
        expect(signature.signer_name).toBe(`${first_name} ${last_name}`)
      if (one.is_submitted)
        for (const { signed_at } of one.e_signatures) expect(signed_at).toBe(one.submitted_at)
      if (form === undefined) continue
      for (const { question, answer_choices, answer_text } of one.answers) {
        if (question === null) continue
        const own = form.questions.find(({ id }) => id === question.id)!
        const type = own.question_type.question_type
        if (type === 'checkbox') ticks.push(answer_text)
        if (type === 'signature') asked += 1
        expect(question.text).toBe(own.text)
        const places = (answer_choices ?? []).map(({ question_choice }) =>
          own.choices.indexOf(question_choice),
        )
        expect(places).toEqual([...new Set(places)].toSorted((a, b) => a - b))
        expect(places).not.toContain(-1)
        if (type === 'single_choice') expect(places.length).toBeLessThan(2)
      }
      signed += one.e_signatures.length
      const times = form.questions.map(
        ({ id }) => one.answers.filter(({ question }) => question?.id === id).length,
      )
      // Each question of a block as often as the others, and one outside of a block once.
      form.questions.forEach(({ block }, at) => {
        const isRepeated =
          form.questions.find(({ id }) => id === block)?.question_type.question_type === 'repeated_block'
        expect(times[at]).toBeLessThanOrEqual(isRepeated ? 3 : 1)
        const next = form.questions[at + 1]
        if (isRepeated && next?.block === block) expect(times[at + 1]).toBe(times[at])
      })
      if (!one.is_submitted && one.packet === null) {
        const last = form.questions.findLastIndex(({ block }, at) => block === undefined && times[at]! > 0)
        expect(last).toBeLessThan(Math.ceil(times.length / 2))
      }
      for (const { id, rows = [], question_type } of form.questions) {
        const cells = one.matrix_cells.filter(({ question }) => question.id === id)
        if (question_type.question_subtype !== 'single_choice') continue
        expect(cells.map(({ answer_text }) => answer_text)).toEqual(cells.map(({ column }) => column.text))
        expect(cells.map(({ row }) => row)).toEqual(cells.length === 0 ? [] : rows)
      }
    }
    expect(new Set(ids).size).toBe(ids.length)
    expect(new Set(ticks)).toEqual(new Set(['true', 'false']))
    if (size > 100) expect(signed).toBeLessThan(asked)
    expect(signed).toBeGreaterThan(0)
  })
})

it('a world has people, forms and packets of different names, and some of each kind', () => {
  const { patients, forms, packets, documents } = worldOf(0, {
    patients: 400,
    forms: 13,
    packets: 9,
    documents: 9,
  })
  for (const table of [forms, packets, documents]) {
    const names = table.slice(0, 100).map(({ name }) => name)
    expect(new Set(names).size).toBe(names.length)
  }
  const ids = patients.slice(0, 400).flatMap(({ external_id }) => external_id ?? [])
  expect(new Set(ids).size).toBe(ids.length)
  for (const { questions } of forms.slice(0, 100)) {
    const places = questions.map(({ page, section, row }) => `${page}/${section}/${row}`)
    expect(new Set(places).size).toBe(places.length)
    for (const { page, section, row } of questions)
      expect(row === 1 || places.includes(`${page}/${section}/${row - 1}`)).toBe(true)
    expect(questions.map(({ order }) => order)).toEqual(questions.map((_, at) => at + 1))
  }
  expect(new Set(forms.slice(0, 100).map(({ enabled }) => enabled))).toEqual(new Set([true, false]))
  const stamps = patients.slice(0, 400).map(({ created_at, updated_at }) => [created_at, updated_at] as const)
  expect(stamps.some(([created]) => !created.includes('.'))).toBe(true)
  expect(stamps.some(([created, updated]) => created === updated)).toBe(true)
  expect(stamps.some(([created, updated]) => created < updated)).toBe(true)
})

it('forms, packets and documents are the same at each look, also where there are thousands', () => {
  const { forms, packets, documents } = worldOf(1, { forms: 2100, packets: 2100, documents: 2100 })
  for (const table of [forms, packets, documents]) {
    const [first, last] = [table.at(0), table.at(2099)]
    const ids = table.slice(0, 3000).map(({ id }: { id: string }) => id)
    expect(new Set(ids).size).toBe(2100)
    expect([table.at(0), table.at(2099)]).toEqual([first, last])
    expect([ids[0], ids[2099]]).toEqual([first!.id, last!.id])
  }
})
