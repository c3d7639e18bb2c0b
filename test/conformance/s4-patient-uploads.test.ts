/** Section 4.1 of the specification: many patients at once, from a CSV file. */
import { describe, expect } from 'vitest'
import { type Loose, type Reply, serviceUnderTest } from '../support/service-under-test.ts'
import { until } from './support/control.ts'
import { expectDone, expectRefused, idOf, NOBODY, rowsOf, walk } from './support/reading.ts'
import { rule } from './support/rule.ts'

const service = serviceUnderTest()

function upload(text: string, name = 'people.csv', part = 'file'): Promise<Reply> {
  const form = new FormData()
  form.set(part, new Blob([text], { type: 'text/csv' }), name)
  return service().call('POST', '/v2/patients/batch-upload', { body: form })
}

/** Requests the progress of an upload until it has ended. */
async function finished(reply: Reply): Promise<Loose> {
  expectDone(service(), reply, 202)
  const ask = async () => (await service().call('GET', `/v2/patients/batch-upload/${idOf(reply.body)}`)).body
  return await until('uploaded', ask, ({ status }) => status === 'completed')
}

const HEADER = 'first_name,last_name,email,phone_number,date_birth,provider'
const CONTACT = 'emergency_first_name,emergency_last_name,emergency_phone_number'

describe('POST /v2/patients/batch-upload', () => {
  rule('4.1 "any other file type returns 400"', ['writing'], async () => {
    for (const name of ['people.xlsx', 'people.txt', 'people', 'people.csv.exe']) {
      const reply = await upload(`${HEADER}\nA,B,,,,\n`, name)
      expectRefused(service(), reply, 400, 'Invalid file type. Only CSV files are allowed.')
    }
  })

  rule('4.1 "one file part named file": without it, 400', ['writing'], async () => {
    expectRefused(service(), await upload(`${HEADER}\nA,B,,,,\n`, 'people.csv', 'upload'), 400)
  })

  rule('4.1 "Many patients can be created at once": every row becomes a patient', ['control'], async () => {
    const rows = [
      'Uploaded,One,one@example.com,5550101,1980-02-29,,Near,One,5550102',
      'Uploaded,"Two, Jr.",two@example.com,,,,,,',
    ]
    const done = await finished(await upload(`${HEADER},${CONTACT}\n${rows.join('\n')}\n`))
    expect(done).toMatchObject({
      total_rows: 2,
      processed_rows: 2,
      success_count: 2,
      error_count: 0,
      errors: [],
    })
    const { rows: found } = await walk(service(), '/v2/patients?first_name=Uploaded')
    expect(found).toHaveLength(2)
    expect(found.find(({ email }) => email === 'one@example.com')).toMatchObject({
      last_name: 'One',
      phone_number: '5550101',
      date_birth: '1980-02-29',
      emergency_contact: { first_name: 'Near', last_name: 'One', phone_number: '5550102' },
    })
    expect(found.map(({ last_name }) => last_name)).toContain('Two, Jr.')
  })

  rule(
    '4.1 "First and last names are required for the patient": such a row is an error, the others are not',
    ['control'],
    async () => {
      const done = await finished(await upload('first_name,last_name\nLone,\nPaired,Row\n,Alone\n'))
      expect(done).toMatchObject({ total_rows: 3, success_count: 1, error_count: 2 })
      expect(done.errors.map(({ row }: Loose) => row)).toEqual([1, 3])
      expect(rowsOf(await service().call('GET', '/v2/patients?first_name=Paired'))).toHaveLength(1)
      expect(rowsOf(await service().call('GET', '/v2/patients?first_name=Lone'))).toHaveLength(0)
    },
  )

  rule('4.1 "and for the emergency contact when one is given"', ['control'], async () => {
    const text = `first_name,last_name,${CONTACT}\nHalf,Contact,,,5550102\nNo,Contact,,,\n`
    const done = await finished(await upload(text))
    expect(done.errors.map(({ row }: Loose) => row)).toEqual([1])
    expect(done).toMatchObject({ success_count: 1, error_count: 1 })
  })

  rule('4.1 "Headers are standardized": without the name columns, 400', ['writing'], async () => {
    for (const text of ['given,family\nA,B\n', '']) expectRefused(service(), await upload(text), 400)
  })

  rule('4.1 "A way to check the progress": an unknown upload is not found', [], async () => {
    const reply = await service().call('GET', `/v2/patients/batch-upload/${NOBODY}`)
    expectRefused(service(), reply, 404, service().isEmulator ? 'Batch upload not found.' : undefined)
  })
})
