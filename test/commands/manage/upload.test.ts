/** The record of a batch upload, read tolerantly: its end, its outcome, and the rows that it lost. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import {
  readColumns,
  uploadDocument,
  uploadOutcome,
  uploadState,
  uploadText,
} from '../../../src/commands/manage/upload.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'

const stateOf = (record: Record<string, unknown>) => uploadState(record as never)

describe('an upload has ended', () => {
  it.each([
    'complete',
    'Completed',
    'done',
    'finished',
    'processed',
    'success',
    'successful',
    'succeeded',
    'failed',
    'failure',
    'error',
    'errored',
    'canceled',
    'cancelled',
    'aborted',
    'partial',
    'partial success',
    'Partial_Success',
    'partially_completed',
    'completed with errors',
    'finished_with_warnings',
  ])('with the status %s', (status) => {
    expect(stateOf({ status }).ended).toBe(true)
  })

  it.each(['processing', 'pending', 'completing', 'not done', 'completed soon', 'in error handling'])(
    'not with the status %s',
    (status) => {
      expect(stateOf({ status }).ended).toBe(false)
    },
  )

  it.each([
    [{ total_rows: 2, processed_rows: 2 }, true],
    [{ total: '2', processed: 3 }, true],
    [{ total_rows: 2, processed_rows: 1 }, false],
    [{ total_rows: 0, processed_rows: 0 }, false],
    [{ total_rows: 2 }, false],
    [{ processed_rows: 2 }, false],
  ])('with the counts %j: %s', (record, ended) => {
    expect(stateOf(record).ended).toBe(ended)
  })
})

it('a field that is absent or cannot be read is null, never 0; the first that can be read counts', () => {
  expect(stateOf({})).toEqual({
    ...{ id: null, status: null, rows: null, processed: null, succeeded: null, failed: null },
    ...{ rejected: [], ended: false },
  })
  expect(uploadState(null)).toEqual(stateOf({}))
  const odd = {
    total_rows: -1,
    total: 9,
    success_count: '',
    succeeded: 1.5,
    error_count: null,
    failed_count: 0,
  }
  expect(stateOf({ ...odd, state: ' waiting ' })).toMatchObject({
    ...{ status: 'waiting', rows: 9, succeeded: null, failed: 0 },
  })
})

it.each([
  [{ status: 'processing' }, 'open'],
  [{ status: 'completed' }, 'taken'],
  [{ status: 'completed', total_rows: 2, success_count: 2 }, 'taken'],
  [{ status: 'completed', total_rows: 2, success_count: 1 }, 'rejected'],
  [{ status: 'completed', total_rows: 2, success_count: 0 }, 'failed'],
  [{ status: 'completed', error_count: 1 }, 'rejected'],
  [{ status: 'completed', errors: ['no e-mail'] }, 'rejected'],
  [{ status: 'failed', errors: ['no e-mail'] }, 'rejected'],
  [{ status: 'failed' }, 'failed'],
  [{ status: 'errored', total_rows: 2, success_count: 2 }, 'failed'],
  [{ status: 'cancelled' }, 'failed'],
  [{ status: 'aborted' }, 'failed'],
  [{ total_rows: 2, processed_rows: 2 }, 'taken'],
])('%j is %s', (record, outcome) => {
  expect(uploadOutcome(stateOf(record))).toBe(outcome)
})

it('rejected rows have their number and reason, wherever the service puts them; what is not named is counted', () => {
  const state = stateOf({
    ...{ id: 'up', status: 'completed', total_rows: 9, processed_rows: 9, success_count: 2, error_count: 7 },
    rejected_rows: [
      { row: 0, detail: 'a' },
      { row_number: '2', error: 'b' },
      { line: 3, message: 'c' },
      { line: '12345678901234567890', errors: { email: 'd' } },
      { city: 'e' },
      'f',
    ],
  })
  expect(uploadText(state, 'a note')).toBe(
    [
      'rows       9\nsucceeded  2\nfailed     7\n\nrejected:',
      'row 0                     a\nrow 2                     b\nrow 3                     c',
      'row 12345678901234567890  {"email":"d"}\na row                     {"city":"e"}',
      'a row                     f\n1 more rejected row(s) that the service does not name\n',
      'upload up: completed\na note\n',
    ].join('\n'),
  )
  expect(uploadDocument(state, null)).toMatchObject({
    upload_id: 'up',
    rejected: [
      { row: 0 },
      { row: 2 },
      { row: 3 },
      { row: '12345678901234567890' },
      { row: null },
      { row: null },
    ],
  })
  // A number of another form is the text that the service sent.
  const rows = ['07', '1e3', '-0', '8', ' 9'].map((row) => ({ row, detail: 'x' }))
  expect(uploadDocument({ ...state, rejected: rows }, null)).toMatchObject({
    rejected: [{ row: '07' }, { row: '1e3' }, { row: '-0' }, { row: 8 }, { row: ' 9' }],
  })
  const running = { id: null, status: null, ended: false, processed: 0 }
  expect(uploadText({ ...state, ...running, rejected: [], failed: null }, null)).toBe(
    'rows       9\nprocessed  0\nsucceeded  2\n\nupload: the service gives no status\n',
  )
})

it('every column of a patient is known to the service, and those of the emergency contact', () => {
  const bytes = Buffer.from('first_name,provider,emergency_zipcode,emergency_email,Nickname\n')
  expect(readColumns(bytes, undefined)).toEqual({
    ...{ bytes, missing: ['last_name'], unknown: ['emergency_email', 'Nickname'] },
  })
  expect(readColumns(Buffer.from(''), undefined)).toMatchObject({ missing: ['first_name', 'last_name'] })
})

describe('--map renames columns in the first line, and nothing else', () => {
  const folder = makeFolder('upload-map-')
  afterAll(() => removeFolder(folder))
  const file = join(folder, 'map.json')
  const read = (text: string, map: object) => {
    // As Windows saves it.
    writeFileSync(file, `\ufeff${JSON.stringify(map)}`)
    const { bytes, ...rest } = readColumns(Buffer.from(text), file)
    return [Buffer.from(bytes).toString(), rest]
  }
  const KNOWN = { missing: [], unknown: [] }

  it.each([
    ['Given,last_name\nA, B\n', 'first_name,last_name\nA, B\n'],
    ['\ufeffGiven,last_name\r\nA,B\r\n', 'first_name,last_name\nA,B\r\n'],
    ['\n\nGiven , last_name\rA,B', 'first_name,last_name\nA,B'],
    ['"Given","last_name"\n"A\n",B', 'first_name,last_name\n"A\n",B'],
    ['Given,last_name', 'first_name,last_name\n'],
    ['Given,last_name,Given\n', 'first_name,last_name,first_name\n'],
  ])('%j becomes %j', (text, bytes) => {
    expect(read(text, { Given: 'first_name' })).toEqual([bytes, KNOWN])
  })

  it('names that a map does not have stay, and those of no column are counted', () => {
    const names = 'constructor,first_name,last_name\n'
    expect(read(names, {})).toEqual([names, { missing: [], unknown: ['constructor'] }])
    expect(() => read(names, { Given: 'first_name', Family: 'last_name', first_name: 'x' })).toThrow(
      expect.objectContaining({
        ...{ message: '--map: FILE lacks 2 of its columns', hint: 'correct their names' },
        ...{ variable: '--map', code: 'definition_invalid' },
      }),
    )
    expect(() => read('', { Given: 'first_name' })).toThrow('--map: FILE lacks 1 of its columns')
    expect(read('a"b,"c\n', {})[1]).toMatchObject({ missing: ['first_name', 'last_name'] })
  })
})
