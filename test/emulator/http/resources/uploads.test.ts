import { readFileSync } from 'node:fs'
import { setTimeout as later } from 'node:timers/promises'
import { parse } from 'csv-parse/sync'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Uploads } from '../../../../src/emulator/http/resources/upload-work.ts'
import { startEmulator } from '../../../../src/emulator/server.ts'
import { keyOf } from '../../../../src/emulator/world/draw.ts'
import { callerOf, type Loose } from '../../caller.ts'
import { realData, realDataMissing, reasonWhenMissing } from '../../real-data.ts'
import { formOf, lines, postUpload, startUploading, UPLOADS, type Uploading } from './uploading.ts'

let service: Uploading
beforeEach(async () => {
  service = await startUploading()
})
afterEach(() => service[Symbol.asyncDispose]())

describe('an upload', () => {
  it('is answered 202 before its first row, and its progress grows until it is completed', async () => {
    const { status, body } = await service.post(formOf(lines(450)))
    const { id, ...rest } = body
    const counts = { processed_rows: 0, success_count: 0, error_count: 0, errors: [] }
    expect({ status, rest }).toEqual({
      status: 202,
      rest: { status: 'processing', total_rows: 450, ...counts },
    })
    expect(await service.progressOf(id)).toEqual(body)
    for (const [processed_rows, state] of [
      [200, 'processing'],
      [400, 'processing'],
      [450, 'completed'],
      [450, 'completed'],
    ] as const) {
      service.emulator.control.advance(50)
      expect(await service.progressOf(id)).toEqual({
        ...body,
        status: state,
        processed_rows,
        success_count: processed_rows,
      })
      expect(service.emulator.control.world().patients.size).toBe(3 + processed_rows)
    }
  })

  it('with 10,000 rows creates 10,000 patients in the order of the file, each with an event', async () => {
    let events = 0
    service.emulator.control.world().subscribe(({ source, type }) => {
      if (source === 'patient' && type === 'created') events += 1
    })
    const { status, success_count } = await service.uploaded(lines(10_000), 50 * 50)
    expect({ status, success_count, events }).toEqual({
      status: 'completed',
      success_count: 10_000,
      events: 10_000,
    })
    expect((await service.created()).map((one) => one.first_name)).toEqual(
      Array.from({ length: 10_000 }, (_, at) => `A${at}`),
    )
  })

  it('keeps every column: fields, the emergency contact, tags, and others as custom fields', async () => {
    const columns = {
      ...{ external_id: 'X-1', first_name: 'Zoë', last_name: 'O’Neil', email: 'a@example.com' },
      ...{ phone_number: '5550100', date_birth: '2000-02-29', sex_at_birth: 'Female', provider: 'p1' },
      ...{ address: '1 Road', address2: 'Flat 2', city: 'Ulm', state: 'MA', zipcode: '00501' },
    }
    const contact = {
      ...{ first_name: 'C', last_name: 'D', phone_number: '5550199', relationship: 'Sibling' },
      ...{ address: '2 Road', address2: 'b', city: 'Bonn', state: 'RI', zipcode: '02801' },
    }
    const cells: [string, string][] = [
      ...Object.entries(columns),
      ...Object.entries(contact).map(([name, value]): [string, string] => [`emergency_${name}`, value]),
      ['patient_tags', 'VIP #ff0000; New client #00ff00'],
      ['Plan', 'Gold'],
      ['__proto__', 'x'],
      ['empty', ''],
    ]
    await service.uploaded(`${cells.map(([name]) => name)}\n${cells.map(([, value]) => value)}`)
    const [one] = await service.created()
    expect(one).toEqual({
      ...columns,
      emergency_contact: contact,
      patient_tags: [
        { name: 'VIP', color: '#ff0000' },
        { name: 'New client', color: '#00ff00' },
      ],
      custom_fields: JSON.parse('{"Plan":"Gold","__proto__":"x"}'),
    })
  })

  it('is read with a byte order mark, CRLF, quotes, line breaks in cells, blank lines and any case of headers', async () => {
    const text =
      '\ufeff"First_Name" , LAST_NAME,address\r\nA,"O, ""N""","1\r\n2"\r\n\r\nB, C ,5" pipe\nD,"  E "\r\n'
    expect(await service.uploaded(text)).toMatchObject({ total_rows: 3, success_count: 3 })
    expect(await service.created()).toMatchObject([
      { first_name: 'A', last_name: 'O, "N"', address: '1\r\n2' },
      { first_name: 'B', last_name: 'C', address: '5" pipe' },
      { first_name: 'D', last_name: '  E ', address: '' },
    ])
  })

  it('that has only a header is completed without rows', async () => {
    expect(await service.uploaded('first_name,last_name')).toMatchObject({
      status: 'completed',
      total_rows: 0,
    })
  })

  it('can be followed under ids of another shape', async () => {
    await using other = await startEmulator({ port: 0, patients: 0, shape: 'numeric-ids' })
    const { body } = await postUpload(callerOf(other), formOf(lines(1)))
    expect(body.id).toEqual(expect.any(Number))
    expect((await callerOf(other).get(`${UPLOADS}/${body.id}`)).body).toMatchObject({
      id: body.id,
      total_rows: 1,
    })
  })
})

describe('the progress of an upload', () => {
  it('is not found by another team, in another environment, or under an unknown id', async () => {
    const { body } = await service.post(formOf(lines(1)))
    const paths = [
      '00000000-0000-4000-8000-000000000000',
      'x',
      (await service.caller.rows('/v2/patients'))[0].id,
    ]
    const replies = [
      ...[callerOf(service.emulator, 0, 1), callerOf(service.emulator, 1)].map((other) =>
        other.get(`${UPLOADS}/${body.id}`),
      ),
      ...paths.map((id) => service.caller.get(`${UPLOADS}/${id}`)),
    ]
    for (const reply of await Promise.all(replies)) {
      expect({ status: reply.status, body: reply.body }).toEqual({
        status: 404,
        body: { detail: 'Batch upload not found.' },
      })
    }
    expect((await callerOf(service.emulator, 0, 1).rows('/v2/patients')).length).toBe(3)
  })

  it('needs credentials, and is refused 405 by every other method', async () => {
    const { body } = await service.post(formOf(lines(1)))
    expect((await service.caller.get(`${UPLOADS}/${body.id}`, {})).status).toBe(401)
    expect((await service.caller.send('POST', UPLOADS, '', {})).status).toBe(401)
    for (const [method, path] of [
      ['GET', UPLOADS],
      ['PUT', UPLOADS],
      ['DELETE', UPLOADS],
      ['POST', `${UPLOADS}/${body.id}`],
      ['PUT', `${UPLOADS}/${body.id}`],
      ['PATCH', `${UPLOADS}/${body.id}`],
      ['DELETE', `${UPLOADS}/${body.id}`],
    ] as const) {
      const reply = await service.caller.send(method, path)
      expect({ status: reply.status, body: reply.body }).toEqual({
        status: 405,
        body: { detail: `Method "${method}" not allowed.` },
      })
    }
  })

  it('has an id that differs from those of other teams and of the other environment', async () => {
    const ids = new Set<string>()
    for (const environment of [0, 1])
      for (const team of [0, 1])
        for (let nth = 0; nth < 2; nth += 1)
          ids.add((await postUpload(callerOf(service.emulator, environment, team), formOf(lines(1)))).body.id)
    expect(ids.size).toBe(8)
  })

  it('is kept until there are a thousand newer ones', () => {
    const uploads = new Uploads(keyOf('test'))
    const ids = Array.from({ length: 1001 }, (_, at) => uploads.open(at).id)
    expect(uploads.get(ids[0]!)).toBeUndefined()
    expect(ids.slice(1).map((id) => uploads.get(id)?.total_rows)).toEqual(
      Array.from({ length: 1000 }, (_, at) => at + 1),
    )
    expect(new Set(ids).size).toBe(1001)
  })
})

describe('an upload in progress', () => {
  it('progresses with time alone, and ends with the emulator', async () => {
    const real = await startEmulator({ port: 0, patients: 0 })
    const { patients } = real.control.world()
    const { body } = await postUpload(callerOf(real), formOf(lines(100_000)))
    expect(body.status).toBe('processing')
    await expect.poll(() => patients.size, { interval: 5 }).toBeGreaterThan(0)
    await real.close()
    const left = patients.size
    await later(250)
    expect(patients.size).toBe(left)
    expect(left).toBeLessThan(100_000)
  })
})

describe.skipIf(realDataMissing)(`real lists of people${reasonWhenMissing}`, () => {
  it.each([
    [
      'patients/febrl/dataset3.csv',
      {
        ...{ rec_id: 'external_id', given_name: 'first_name', surname: 'last_name', suburb: 'city' },
        ...{ address_1: 'address', address_2: 'address2', postcode: 'zipcode' },
      },
    ],
    [
      'patients/synthea-ohdsi/patients.csv',
      { Id: 'external_id', FIRST: 'first_name', LAST: 'last_name', BIRTHDATE: 'date_birth', ZIP: 'zipcode' },
    ],
  ])('%s comes through value for value, less the rows without a name', async (file, names) => {
    const [header, ...rows] = parse(readFileSync(realData(file)), { trim: true }) as string[][]
    const columns = header!.map((name) => (names as Record<string, string>)[name] ?? name)
    const lower = columns.map((name) => name.toLowerCase())
    const text = readFileSync(realData(file), 'utf8').replace(/^.*/, columns.join(', '))
    const nameless = (row: string[]) =>
      ['first_name', 'last_name'].some((name) => row[columns.indexOf(name)] === '')
    const { errors, total_rows, success_count } = await service.uploaded(text)
    expect({ total_rows, success_count }).toEqual({
      total_rows: rows.length,
      success_count: rows.length - errors.length,
    })
    expect(errors.map((one: Loose) => one.row)).toEqual(
      rows.flatMap((row, at) => (nameless(row) ? [at + 1] : [])),
    )
    const good = rows.filter((row) => !nameless(row))
    const people = await service.created()
    expect(people).toHaveLength(good.length)
    people.forEach((person, at) => {
      for (const [column, cell] of good[at]!.entries()) {
        const stored =
          lower[column]! in person ? person[lower[column]!] : person.custom_fields[columns[column]!]
        expect(stored ?? '').toBe(cell)
      }
    })
  })
})
