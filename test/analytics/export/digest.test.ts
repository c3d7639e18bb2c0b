/** What the manifest of an export says of its files. */
import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { digestOf } from '../../../src/analytics/export/export.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'

const folder = makeFolder('digest-')
afterAll(() => removeFolder(folder))

test.each([
  ['nothing', Buffer.alloc(0)],
  ['text of one part', Buffer.from('Zoë, “naïve”\r\n')],
  // A character of several bytes is at the end of a part of 64 KiB.
  ['text of several parts', Buffer.from(`.${'é€😀'.repeat(50_000)}`)],
  ['bytes that are no text', Buffer.from(Array.from({ length: 100_000 }, (_, at) => 128 + (at % 128)))],
])('a file with %s has the size and the hash of its bytes', async (name, bytes) => {
  const path = join(folder, name)
  writeFileSync(path, bytes)
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  expect(await digestOf(path)).toEqual({ bytes: bytes.length, sha256 })
})
