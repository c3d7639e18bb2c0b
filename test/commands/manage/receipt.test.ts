/** Receipts are signed, contain no id, and are found out when they were changed. */
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { checkReceipt, verificationFacts } from '../../../src/operate/receipts.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { openScene, type Scene } from '../../e2e/support/scene.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'
import { runCommand } from '../../support/run-command.ts'

let scene: Scene
let folder: string
let patient: string
const file = (name: string) => join(folder, name)
const run = (...words: string[]) => runCommand(words, scene.env)
const receiptIn = (name: string) => JSON.parse(readFileSync(file(name), 'utf8'))

beforeAll(async () => {
  folder = makeFolder('receipts-')
  scene = await openScene({ patients: 5, responses: 8 })
  await scene.backfill()
  const [one] = await scene.query<{ id: string }>(
    'select patient_id as id from intake.responses where patient_id is not null order by 1 limit 1',
  )
  patient = one!.id
})
afterAll(async () => {
  await scene?.[Symbol.asyncDispose]()
  removeFolder(folder)
})

test('a verification that fails leaves no file for its receipt', async () => {
  const away = { ...scene.env, DATABASE_URL: 'postgres://nobody:none@127.0.0.1:1/none' }
  const ended = await runCommand(['verify', '--receipt', file('failed')], away)
  expect([ended.code, existsSync(file('failed'))]).toEqual([1, false])
})

test('a verification’s receipt has counts and hashes of both sides, and exceptions as counts', async () => {
  await scene.query(`update intake.patients set first_name = 'changed here' where id = $1`, [patient])
  const ended = await run('verify', '--streams', 'patients,forms', '--json', '--receipt', file('verified'))
  expect(ended.code).toBe(4)
  const receipt = receiptIn('verified')
  const { patients, forms } = receipt.teams.default.streams
  expect(receipt).toMatchObject({ kind: 'verification', equal: false, run_id: expect.any(Number) })
  expect(patients).toMatchObject({ source: 5, warehouse: 5, missing: 0, extra: 0, different: 1 })
  expect(patients.source_hash).not.toBe(patients.warehouse_hash)
  expect(forms.source_hash).toBe(forms.warehouse_hash)
  expect(forms.source_hash).toMatch(/^[\da-f]{32}$/)
  // The content hash is of payloads, in the order of ids: the changed cell is not in it.
  const hashes = await scene.query<{ id: string; hash: string }>(
    `select id, encode(_hash, 'hex') as hash from intake.patients`,
  )
  const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest()
  const inOrder = hashes.sort((a, b) => Buffer.compare(Buffer.from(a.id), Buffer.from(b.id)))
  const block = Buffer.concat(inOrder.map(({ hash }) => Buffer.from(hash, 'hex')))
  expect(patients.source_content_hash).toBe(sha256(sha256(block)).toString('hex'))
  expect(patients.warehouse_content_hash).toBe(patients.source_content_hash)
  expect(JSON.parse(ended.stdout).streams.patients).toMatchObject({
    source_content_hash: patients.source_content_hash,
  })
  expect(readFileSync(file('verified'), 'utf8')).not.toContain(patient)
  // Also as Windows saves it.
  writeFileSync(file('marked'), `\ufeff${readFileSync(file('verified'), 'utf8')}`)
  for (const name of ['verified', 'marked']) {
    const checked = await run('receipt', 'check', file(name))
    expect([checked.code, checked.stdout]).toEqual([
      ...[0, `valid: verification of ${receipt.issued_at} by intake-sync 0.0.0\n`],
    ])
  }
})

test('a receipt certifies no equality where exports differ from the responses, though every table is equal', async () => {
  const [run] = await scene.query<{ id: number }>(
    `insert into intake_ops.runs (kind, status, options, finished_at)
     values ('verify', 'needs_attention', '{"teams": ["default"], "streams": ["exports"]}', now()) returning run_id::int as id`,
  )
  await scene.query(
    `insert into intake_ops.verifications (run_id, team_id, stream, is_equal, source, warehouse, missing, extra, different,
       repaired, missing_ids, extra_ids, different_ids, deep)
     select $1, team_id, 'exports', true, 9, 9, 0, 0, 0, 0, '{}', '{}', '[]', '{"rows": 3, "differences": [{"export_id": "x"}]}'
     from intake.teams`,
    [run!.id],
  )
  await using session = await openSession({ url: scene.url, purpose: 'facts' })
  expect(await verificationFacts(session.db, run!.id)).toMatchObject({
    equal: false,
    teams: { default: { deep: { rows: 3, differences: 1 } } },
  })
  // Without that comparison, the table is equal; a stream that was not compared is not.
  await scene.query('update intake_ops.verifications set deep = null where run_id = $1', [run!.id])
  const facts = () => verificationFacts(session.db, run!.id)
  expect(await facts()).toMatchObject({ equal: true, teams: { default: { deep: null } } })
  for (const [change, isEqual] of [
    ['missing = 1, repaired = 1', false],
    ['missing = 0, extra = 1', false],
    ['extra = 0, different = 1', false],
    ['different = 0, newer = 1', true],
  ] as const) {
    await scene.query(`update intake_ops.verifications set ${change} where run_id = $1`, [run!.id])
    expect([change, (await facts())!.equal]).toEqual([change, isEqual])
  }
  await scene.query(
    `update intake_ops.runs set options = '{"teams": ["default"], "streams": ["exports", "forms"]}' where run_id = $1`,
    [run!.id],
  )
  expect(await facts()).toMatchObject({
    equal: false,
    teams: {
      default: { streams: { exports: { error: null }, forms: { source: null, error: 'not compared' } } },
    },
  })
  // Neither a verification in progress nor another run has facts.
  await scene.query(`update intake_ops.runs set status = 'running' where run_id = $1`, [run!.id])
  expect(await facts()).toBeNull()
  const [other] = await scene.query<{ id: number }>(
    `select run_id::int as id from intake_ops.runs where kind = 'backfill'`,
  )
  expect(await verificationFacts(session.db, other!.id)).toBeNull()
  await scene.query('delete from intake_ops.runs where run_id = $1', [run!.id])
})

test('an erasure’s receipt says what was removed, when and by which login, and of whom only a hash', async () => {
  const before = Date.now()
  const ended = await run('erase', 'patient', patient, '--yes', '--json', '--receipt', file('erased'))
  expect([ended.code, ended.stderr]).toEqual([0, ''])
  expect(statSync(file('erased')).mode & 0o777).toBe(0o600)
  const receipt = receiptIn('erased')
  const [who] = await scene.query<{ login: string }>('select session_user as login')
  expect(receipt).toMatchObject({
    kind: 'erasure',
    team: 'default',
    login: who!.login,
    left: [],
    hash_kept: true,
  })
  expect(receipt.erased.records).toBeGreaterThan(1)
  expect(Date.parse(receipt.issued_at)).toBeGreaterThanOrEqual(before)
  expect(readFileSync(file('erased'), 'utf8')).not.toContain(patient)
  // The hash of an id is that of its team.
  await scene.query(`insert into intake.teams (name) values ('another')`)
  expect((await run('receipt', 'check', file('erased'), '--patient', patient)).code).toBe(0)
  await scene.query(`delete from intake.teams where name = 'another'`)
  const other = await run('receipt', 'check', file('erased'), '--patient', 'somebody')
  expect([other.code, other.stdout]).toEqual([1, 'not valid: it is not the erasure of this patient\n'])
})

test('a receipt is checked with the public key, without a warehouse', async () => {
  const key = (await run('receipt', 'key')).stdout.trim()
  const check = (path: string, ...words: string[]) =>
    runCommand(['receipt', 'check', path, '--json', ...words], {
      DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none',
    })
  const checked = await check(file('erased'), '--key', key)
  expect([checked.code, JSON.parse(checked.stdout)]).toMatchObject([
    0,
    { valid: true, receipt: { kind: 'erasure' } },
  ])
  const another = Buffer.from(key, 'base64')
  another[0]! ^= 1
  const refused = await check(file('erased'), '--key', another.toString('base64'))
  expect([refused.code, JSON.parse(refused.stdout)]).toEqual([
    1,
    { valid: false, reason: 'another key signed it' },
  ])
})

test('a changed receipt is not valid, whatever was changed', async () => {
  const original = receiptIn('erased')
  const { signature } = original
  const key = signature.public_key as string
  const signedWith = (changes: object) => ({ ...original, signature: { ...signature, ...changes } })
  const isChanged = 'its content was changed after it was signed'
  const changed: readonly (readonly [unknown, string])[] = [
    [{ ...original, erased: { ...original.erased, records: 0 } }, isChanged],
    [{ ...original, issued_at: '2020-01-01T00:00:00.000Z' }, isChanged],
    [{ ...original, left: [{ table: 't', column: 'c', rows: 1 }] }, isChanged],
    [{ ...original, more: true }, isChanged],
    [{ ...original, login: undefined }, isChanged],
    [{ ...original, signature: undefined }, 'it is not signed'],
    [signedWith({ value: Buffer.alloc(64).toString('base64') }), isChanged],
    [signedWith({ value: 7 }), 'it is not signed'],
    [signedWith({ algorithm: 'none' }), 'it is not signed'],
    [signedWith({ public_key: Buffer.alloc(32).toString('base64') }), 'another key signed it'],
    [{ ...original, format_version: 2 }, 'its format is of another version of intake-sync'],
    [{ ...original, format: 'another' }, 'it is not a receipt'],
    [[], 'it is not a receipt'],
    [{}, 'it is not a receipt'],
  ]
  for (const [receipt, reason] of changed)
    expect.soft(checkReceipt(JSON.stringify(receipt), key)).toEqual({ valid: false, reason })
  expect(checkReceipt('not JSON', key)).toEqual({ valid: false, reason: 'it is not JSON' })
  expect(checkReceipt(JSON.stringify(signedWith({ public_key: 'AAAA' })), 'AAAA')).toEqual({
    ...{ valid: false, reason: 'the public key is not one of Ed25519' },
  })
  writeFileSync(file('changed'), JSON.stringify(changed[0]![0]))
  const { code, stdout } = await run('receipt', 'check', file('changed'))
  expect([code, stdout]).toEqual([1, `not valid: ${isChanged}\n`])
  // Blanks and the order of keys are no content.
  writeFileSync(file('changed'), JSON.stringify(Object.fromEntries(Object.entries(original).reverse())))
  expect((await run('receipt', 'check', file('changed'))).code).toBe(0)
})

test('a receipt never overwrites a file, and a command that cannot write one does not begin', async () => {
  const [next] = await scene.query<{ id: string }>('select id from intake.patients order by 1 limit 1')
  for (const [path, message] of [
    [file('erased'), 'exists already'],
    [file('no-such-folder/receipt'), 'cannot be written'],
  ] as const) {
    const ended = await run('erase', 'patient', next!.id, '--yes', '--receipt', path)
    expect([ended.code, ended.stderr]).toEqual([2, expect.stringContaining(message)])
  }
  expect(await scene.query('select from intake.patients where id = $1', [next!.id])).toHaveLength(1)
  const unknown = await run('erase', 'patient', 'nobody', '--yes', '--receipt', file('unknown'))
  expect([unknown.code, existsSync(file('unknown'))]).toEqual([1, false])
  expect((await run('receipt', 'check', file('unknown'))).code).toBe(2)
  // Without a hash of the id, nobody can tell whose erasure it was.
  const words = ['erase', 'patient', next!.id, '--yes', '--forget', '--receipt', file('forgotten')]
  expect((await run(...words)).code).toBe(0)
  expect(receiptIn('forgotten')).toMatchObject({ hash_kept: false, patient_hash: null })
  expect((await run('receipt', 'check', file('forgotten'))).code).toBe(0)
  expect((await run('receipt', 'check', file('forgotten'), '--patient', next!.id)).code).toBe(1)
})
