/** Problems of a file: all are counted, and so many are listed that the row of the export stays small. */
import { expect, test } from 'vitest'
import { openExportText } from '../../../src/load/exports/export-text.ts'
import { openFileLines } from '../../../src/load/exports/file-lines.ts'
import { openFileProblems } from '../../../src/load/exports/file-problems.ts'

test.each([1, 1_000, 1_001])(
  'of %i problems up to a thousand are listed, then how many there are in all',
  (count) => {
    const problems = openFileProblems(7)
    for (let at = 1; at <= count; at++) problems.add(`rows[${at}].sent_at`, 'rows[].sent_at', 'odd', at)
    const listed = problems.listed()
    expect(problems.count).toBe(count)
    expect(listed[0]).toEqual({ path: 'raw_text.rows[1].sent_at', reason: 'odd', original: 1 })
    expect(listed.length).toBe(count > 1_000 ? 1_001 : count)
    if (count > 1_000)
      expect(listed.at(-1)).toEqual({
        path: 'raw_text',
        reason: expect.stringContaining('more problems'),
        original: count,
      })
    expect([...problems.at]).toEqual([[JSON.stringify([7, 'raw_text.rows[].sent_at', 'odd']), count]])
  },
)

test.each([
  ['as specified', 'Client ID,First Name,Last Name,Email,Sent at,Completed at,Archived,q', 0],
  [
    'in another case, with other blanks',
    'client  id,FIRSTNAME, Last Name,email,Sent At,Completed at,archived',
    0,
  ],
  ['in another order', 'First Name,Client ID,Last Name,Email,Sent at,Completed at,Archived', 1],
  ['too few', 'Client ID,First Name,Last Name,Email,Sent at,Completed at', 1],
])('leading titles %s: of this header there are so many problems', (_, header, count) => {
  const problems = openFileProblems(1)
  openFileLines({ teamId: 1, exportId: 'e', fromJson: false }, problems).add(header.split(','), true)
  expect(problems.count).toBe(count)
})

test('a record of up to 64 MiB is read, a longer one ends the file, before it fills the memory', () => {
  const text = openExportText({ isJsonString: false }, () => {})
  const piece = Buffer.alloc(16 * 1024 * 1024, 'x')
  text.write(Buffer.from('a,b\n"'))
  for (let part = 0; part < 4; part++) text.write(piece)
  expect(() => text.write(Buffer.from('y'))).toThrow(
    'the file is malformed: a record of more than 64 MiB, line 2',
  )
})
