/** The steps of opening and leaving the embedded server, with neighbours that note what they are asked. */
import { mkdirSync, realpathSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeEach, expect, test, vi } from 'vitest'
import type * as Supervise from '../../src/embedded/supervise.ts'
import type { Attachment } from '../../src/embedded/supervise.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'

const steps = vi.hoisted<string[]>(() => [])
const played = vi.hoisted(() => ({
  /** What the next calls answer; the last one goes on. */
  attach: [] as unknown[],
  addresses: [] as unknown[],
  starts: [] as string[],
  /** What the next connections end with; none: they are made. */
  refusals: [] as string[],
  dataDirectory: '',
  /** Ends the closing of a connection. */
  closing: undefined as Promise<void> | undefined,
  home: { directory: '', cluster: '', user: undefined },
}))
const next = vi.hoisted(
  () =>
    <T>(answers: T[]): T =>
      (answers.length > 1 ? answers.shift() : answers[0]) as T,
)

vi.mock('../../src/embedded/home.ts', async (original) => ({
  ...(await original<object>()),
  findHome: async (dataDir: string, onNotice: (line: string) => void) => {
    steps.push(`home of ${dataDir}`)
    onNotice('of the home')
    return played.home
  },
}))
vi.mock('../../src/embedded/binaries.ts', () => ({
  prepareBinaries: async (home: { directory: string }, onNotice: (line: string) => void) => {
    steps.push(`programs for ${home.directory}`)
    onNotice('of the programs')
    return { bin: '/programs', major: '18' }
  },
}))
vi.mock('../../src/embedded/initialise.ts', () => ({
  ROLE: 'intake',
  readPassword: async (home: { directory: string }) => {
    steps.push(`password of ${home.directory}`)
    return 'the-password'
  },
  initialise: async (home: { directory: string }, binaries: { bin: string }, unsafe: boolean) =>
    void steps.push(`set-up of ${home.directory} with ${binaries.bin}, unsafe ${unsafe}`),
}))
vi.mock('../../src/embedded/process-identity.ts', async (original) => ({
  ...(await original<object>()),
  withLock: async (path: string, milliseconds: number, action: () => Promise<unknown>) => {
    steps.push(`lock ${path} ${milliseconds}`)
    const result = await action()
    steps.push('unlock')
    return result
  },
}))
vi.mock('../../src/embedded/supervise.ts', async (original) => {
  const { notStarted } = await original<typeof Supervise>()
  return {
    notStarted,
    attach: async (home: { directory: string }) => {
      steps.push(`attach ${home.directory}`)
      return next(played.attach)
    },
    readAddress: async () => next(played.addresses),
    startSupervisor: async (orders: object) => {
      steps.push(`supervisor ${JSON.stringify(orders)}`)
      return next(played.starts)
    },
  }
})
vi.mock('node:timers/promises', async (original) => ({
  ...(await original<object>()),
  setTimeout: async (milliseconds: number) => void steps.push(`pause ${milliseconds}`),
}))
vi.mock('pg', () => ({
  default: {
    Client: class {
      readonly port = 5433
      readonly #options: { connectionString: string; application_name: string }
      constructor(options: { connectionString: string; application_name: string }) {
        this.#options = options
      }
      on() {}
      async connect() {
        const { connectionString, application_name } = this.#options
        const refusal = played.refusals.shift()
        steps.push(`connect ${application_name} ${connectionString} ${refusal ?? ''}`.trim())
        if (refusal !== undefined) throw Object.assign(new Error('refused'), { code: refusal })
      }
      async query(text: string, values?: unknown[]) {
        steps.push(`query ${text}${values === undefined ? '' : ` of ${values}`}`)
        if (text.startsWith('show')) return { rows: [{ data_directory: played.dataDirectory }], rowCount: 1 }
        return { rows: [], rowCount: 0 }
      }
      async end() {
        steps.push('end')
        await played.closing
        steps.push('ended')
      }
    },
  },
}))

const { openEmbedded } = await import('../../src/embedded/server.ts')

const base = realpathSync(makeFolder('server-steps-'))
const cluster = join(base, 'cluster')
mkdirSync(cluster)
symlinkSync(cluster, join(base, 'link'))
afterAll(() => removeFolder(base))

let lost: (() => void)[]
const attachment = (port: number, answers = ['left']): Attachment => ({
  port,
  leave: async () => {
    steps.push(`leave ${port}`)
    return answers.shift() as 'left'
  },
  onLost: (callback) => void lost.push(callback),
})

beforeEach(() => {
  steps.length = 0
  lost = []
  Object.assign(played, { attach: [], addresses: [undefined], starts: ['started'], refusals: [] })
  Object.assign(played, { dataDirectory: join(base, 'link'), closing: undefined })
  played.home = { directory: base, cluster, user: undefined }
})

const LOCK = `lock ${join(base, 'lock')} 300000`
const beginning = (unsafe: boolean) => [
  ...[`programs for ${base}`, `set-up of ${base} with /programs, unsafe ${unsafe}`],
  `supervisor ${JSON.stringify({ home: { directory: base, cluster }, bin: '/programs', unsafe })}`,
]
const connect = (port: number) =>
  `connect intake-sync postgres://intake:the-password@127.0.0.1:${port}/postgres`
const ensuring = [
  ...['query show data_directory', 'query select 1 from pg_database where datname = $1 of intake'],
  ...['query create database intake', 'end', 'ended'],
]

test.each([undefined, false, true])(
  'a server that is not running is set up and started under the lock, with the requested durability (unsafe: %s)',
  async (unsafe) => {
    played.attach = ['none', attachment(5433)]
    const notices: string[] = []
    const server = await openEmbedded({
      ...{ dataDir: '/data', onNotice: (line) => notices.push(line) },
      ...(unsafe === undefined ? {} : { unsafe }),
    })
    expect(steps).toEqual([
      ...['home of /data', `attach ${base}`, LOCK, ...beginning(unsafe === true), 'unlock'],
      ...[`attach ${base}`, `password of ${base}`, connect(5433), ...ensuring],
    ])
    expect([server.url, server.directory, notices]).toEqual([
      ...['postgres://intake:the-password@127.0.0.1:5433/intake', base, ['of the home', 'of the programs']],
    ])
  },
)

test('a server that another process started while the lock was waited for is joined, after a moment', async () => {
  played.attach = ['none', 'none', attachment(5433)]
  played.addresses = [{}, undefined]
  await openEmbedded({ dataDir: '/data' })
  expect(steps.slice(1, -7)).toEqual([
    ...[`attach ${base}`, LOCK, 'pause 20', 'unlock'],
    ...[`attach ${base}`, LOCK, ...beginning(false), 'unlock', `attach ${base}`],
  ])
})

test('nine supervisors may be killed while they start, and the tenth is used', async () => {
  played.attach = [...Array(10).fill('none'), attachment(5433)]
  played.starts = [...Array(9).fill('killed'), 'started']
  await openEmbedded({ dataDir: '/data' })
  expect(steps.filter((step) => step.startsWith('supervisor'))).toHaveLength(10)
  // Each takeover has ten attempts of its own.
  played.attach = [...Array(10).fill('none'), attachment(5434)]
  played.starts = [...Array(9).fill('killed'), 'started']
  lost[0]!()
  await vi.waitFor(() => expect(lost).toHaveLength(2))
  expect(steps.filter((step) => step.startsWith('supervisor'))).toHaveLength(20)
})

test.each(['ECONNREFUSED', 'ECONNRESET', '57P01', '57P02', '57P03'])(
  'a connection that is refused with %s is tried again a moment later; it is closed before the server is used',
  async (code) => {
    played.attach = [attachment(5433)]
    played.refusals = [code, code]
    let close = () => {}
    played.closing = new Promise<void>((resolve) => {
      close = resolve
    })
    let isOpen = false
    const opening = openEmbedded({ dataDir: '/data' }).then(() => {
      isOpen = true
    })
    await vi.waitFor(() => expect(steps.at(-1)).toBe('end'))
    await new Promise(setImmediate)
    expect(isOpen).toBe(false)
    close()
    await opening
    expect(steps.slice(2)).toEqual([
      ...[`password of ${base}`, `${connect(5433)} ${code}`, 'pause 100', `${connect(5433)} ${code}`],
      ...['pause 100', connect(5433), ...ensuring],
    ])
  },
)

test('a supervisor that is lost is replaced, and the replacement is left at the stop; a loss after that is ignored', async () => {
  played.attach = [attachment(5433), attachment(5434, ['lost']), attachment(5435, ['stopped'])]
  const server = await openEmbedded({ dataDir: '/data' })
  steps.length = 0
  lost[0]!()
  await vi.waitFor(() => expect(lost).toHaveLength(2))
  await server.stop()
  expect(steps).toEqual([`attach ${base}`, 'leave 5434', `attach ${base}`, 'leave 5435'])
  for (const callback of lost) callback()
  await new Promise(setImmediate)
  expect(steps).toHaveLength(4)
})
