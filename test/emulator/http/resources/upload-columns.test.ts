/** What each column of an uploaded file means, and how a refused cell is named. */
import { describe, expect, it } from 'vitest'
import { NO_FIELDS } from '../../../../src/emulator/http/resources/patient-body.ts'
import { readRow, readUpload, type Sheet } from '../../../../src/emulator/http/resources/upload-file.ts'
import { formOf } from './uploading.ts'

async function read(content: string | Uint8Array<ArrayBuffer>, rename = (type: string) => type) {
  const request = new Response(formOf(content))
  const body = Buffer.from(await request.arrayBuffer())
  return readUpload(rename(request.headers.get('content-type')!), body)
}

async function rowsOf(content: string | Uint8Array<ArrayBuffer>) {
  const { columns, rows, isUtf8 } = (await read(content)) as Sheet
  return rows.map((row) => readRow(columns, row, isUtf8))
}

const bytes = (text: string) => new Uint8Array(Buffer.from(text, 'latin1'))

describe('a column', () => {
  it('is a field in any case, one of the emergency contact, or else a custom field under its own name', async () => {
    const header = ' FIRST_NAME ,Last_Name,Emergency_First_Name,EMERGENCY_LAST_NAME,Emergency_City'
    const custom = 'emergency_contact,custom_fields,id,created_at,Emergency_Email,emergency_,first name'
    const [row] = await rowsOf(`${header},${custom}\nA,B,C,D,E,1,2,3,4,5,6,7\n`)
    expect(row).toEqual({
      fields: {
        ...NO_FIELDS,
        ...{ first_name: 'A', last_name: 'B' },
        emergency_contact: { first_name: 'C', last_name: 'D', city: 'E' },
        custom_fields: {
          ...{ emergency_contact: '1', custom_fields: '2', id: '3', created_at: '4', Emergency_Email: '5' },
          ...{ emergency_: '6', 'first name': '7' },
        },
      },
    })
  })

  it('without a value in a row leaves its field as if the column did not exist', async () => {
    const rows = await rowsOf(
      'first_name,last_name,email,emergency_city,patient_tags,note\nA,B,,,,\nC,D,,,,x\n',
    )
    expect(rows).toEqual([
      { fields: { ...NO_FIELDS, first_name: 'A', last_name: 'B' } },
      { fields: { ...NO_FIELDS, first_name: 'C', last_name: 'D', custom_fields: { note: 'x' } } },
    ])
  })

  it('is named in an error: by its field, or else by its title in the file; only the first bad cell of a row is reported', async () => {
    const rows = await rowsOf(
      bytes(
        'FIRST_NAME,Last_Name,My Note,EMERGENCY_CITY,E\nA,\xe9,\xe9,,\nA,B,\xe9,\xe9,\nA,B,x,\xe9,\nA,B,x,,\nA\n',
      ),
    )
    expect(rows.map((row) => ('detail' in row ? row.detail : 'read'))).toEqual([
      'last_name: Enter text in UTF-8.',
      'My Note: Enter text in UTF-8.',
      'emergency_city: Enter text in UTF-8.',
      'read',
      'last_name: This field is required.',
    ])
  })

  it('whose name is not UTF-8 makes the file invalid', async () => {
    expect(await read(bytes('first_name,last_name,n\xe9\nA,B,C\n'))).toEqual({ type: 'invalid' })
    expect(await read('first_name,last_name,né\nA,B,C\n')).toMatchObject({ type: 'sheet', isUtf8: true })
  })
})

it('the type of a body is read in any case, and another one that begins alike is no multipart body', async () => {
  const content = 'first_name,last_name\nA,B\n'
  const type = (rename: (type: string) => string) => read(content, rename).then((one) => one.type)
  expect([
    await type((one) => one.replace('multipart/form-data', 'Multipart/Form-Data')),
    await type((one) => ` ${one}`),
    await type((one) => one.replace('form-data', 'form-database')),
    await type((one) => one.replace('multipart', 'x-multipart')),
  ]).toEqual(['sheet', 'sheet', 'invalid', 'invalid'])
})
