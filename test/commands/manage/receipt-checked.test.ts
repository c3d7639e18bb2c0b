/** `receipt check` without a warehouse: whose key is used, when an id is looked at, and what each answer becomes. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeEach, expect, it, vi } from 'vitest'
import { hashesOf } from '../../../src/load/erasures.ts'
import { checkReceipt, receiptKey } from '../../../src/operate/receipts.ts'
import { readTeams } from '../../../src/warehouse/teams.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'
import { runCommand } from '../../support/run-command.ts'

vi.mock('../../../src/warehouse/connect.ts', async (original) => ({
  ...(await original()),
  openSession: async () => ({ db: 'db', [Symbol.asyncDispose]: async () => {} }),
}))
vi.mock('../../../src/analytics/migrate.ts', async (original) => ({
  ...(await original()),
  requireMigrated: async () => {},
}))
vi.mock('../../../src/load/erasures.ts', async (original) => ({ ...(await original()), hashesOf: vi.fn() }))
vi.mock('../../../src/operate/receipts.ts', () => ({ checkReceipt: vi.fn(), receiptKey: vi.fn() }))
vi.mock('../../../src/warehouse/teams.ts', async (original) => ({
  ...(await original()),
  readTeams: vi.fn(),
}))

const folder = makeFolder('receipt-checked-')
const file = join(folder, 'receipt')
afterAll(() => removeFolder(folder))

const receipt = {
  ...{ kind: 'erasure', issued_at: '2026-01-05T02:11:09Z', version: '1\u001b', team: 'south' },
  patient_hash: 'patients p of 2',
}

beforeEach(() => {
  vi.resetAllMocks()
  // As Windows saves it.
  writeFileSync(file, '\ufeff{"a": 1}\n')
  vi.mocked(receiptKey).mockResolvedValue('of the warehouse')
  vi.mocked(checkReceipt).mockReturnValue({ valid: true, receipt } as never)
  vi.mocked(readTeams).mockResolvedValue(
    ['north', 'south'].map((name, at) => ({ name, teamId: at + 1 })) as never,
  )
  vi.mocked(hashesOf).mockImplementation(
    async (_, teamId) =>
      ({
        hashOf: ({ stream, id }: { stream: string; id: string }) => `${stream} ${id} of ${teamId}`,
      }) as never,
  )
})

async function receipts(...words: string[]) {
  const env = { DATABASE_URL: 'postgres://u@127.0.0.1:1/d' }
  const { code, stdout, stderr } = await runCommand(['receipt', ...words], env)
  return { code, stdout, stderr }
}
const check = (...words: string[]) => receipts('check', file, ...words)
const VALID = 'valid: erasure of 2026-01-05T02:11:09Z by intake-sync 1\\x1b\n'

it('the key is that of the warehouse, or the given one, for which no warehouse is read', async () => {
  expect(await check()).toEqual({ code: 0, stdout: VALID, stderr: '' })
  expect(await check('--key', 'given')).toEqual({ code: 0, stdout: VALID, stderr: '' })
  expect(vi.mocked(checkReceipt).mock.calls).toEqual([
    ['{"a": 1}\n', 'of the warehouse'],
    ['{"a": 1}\n', 'given'],
  ])
  expect(receiptKey).toHaveBeenCalledOnce()
  expect(hashesOf).not.toHaveBeenCalled()
  expect(await receipts('key')).toEqual({ code: 0, stdout: 'of the warehouse\n', stderr: '' })
})

it.each([
  ['p', 'south', 'patients p of 2', true],
  ['q', 'south', 'patients p of 2', false],
  // The same id of another team.
  ['p', 'north', 'patients p of 2', false],
  ['p', 'gone', 'patients p of 2', false],
  ['p', 'south', null, false],
  ['p', undefined, undefined, false],
])(
  'of the patient %s, a receipt of the team %s with the hash %j is one: %s',
  async (id, team, patient_hash, valid) => {
    const found = { ...receipt, team, patient_hash }
    vi.mocked(checkReceipt).mockReturnValue({ valid: true, receipt: found } as never)
    const reason = 'it is not the erasure of this patient'
    const text = await check('--patient', id)
    expect([text.code, text.stdout]).toEqual(valid ? [0, VALID] : [1, `not valid: ${reason}\n`])
    const { code, stdout } = await check('--patient', id, '--json')
    expect([code, JSON.parse(stdout)]).toEqual(
      valid ? [0, { valid, receipt: { ...receipt } }] : [1, { valid, reason }],
    )
  },
)

it('a receipt that is not valid says why, whoever is asked about', async () => {
  vi.mocked(checkReceipt).mockReturnValue({ valid: false, reason: 'the signature is wrong' })
  for (const words of [[], ['--key', 'k'], ['--patient', 'p']]) {
    expect(await check(...words)).toEqual({
      code: 1,
      stdout: 'not valid: the signature is wrong\n',
      stderr: '',
    })
    const { code, stdout } = await check(...words, '--json')
    expect([code, JSON.parse(stdout)]).toEqual([1, { valid: false, reason: 'the signature is wrong' }])
  }
  expect(hashesOf).not.toHaveBeenCalled()
})
