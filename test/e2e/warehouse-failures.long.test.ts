/** A warehouse that cannot be used: a clear message in finite time, no secret shown, and a next run that succeeds. */
import net, { type AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, vi } from 'vitest'
import { runCli, startCli } from '../support/cli.ts'
import { runCommand } from '../support/run-command.ts'
import { expectedOf, storedTables } from './support/expected.ts'
import { connect, openScene, query } from './support/scene.ts'

vi.mock('../../src/warehouse/connect.ts', async (original) => {
  const { withShortLocks } = await import('./support/impatient.ts')
  return await withShortLocks(original)
})

describe.concurrent('a warehouse', () => {
  it.each([
    ['a first load', 'intake.patients', false],
    ['a later run', 'intake_raw.records', true],
  ])(
    'with a table that another session locks fails %s in finite time with 1, and the next run succeeds',
    async (_, table, loaded) => {
      await using scene = await openScene()
      const { control } = scene.emulator
      if (loaded) expect((await scene.backfill()).code).toBe(0)
      control.updatePatient(control.world().patients.at(0)!.id, { last_name: 'Waiting' })
      const other = await connect(scene.url)
      try {
        await other.query(`begin; lock table ${table} in access exclusive mode`)
        const run = await scene.backfill()
        expect(run.code).toBe(1)
        expect(run.stdout).toContain('a table of the warehouse is locked by another session')
        expect(run.stdout).toContain('pg_stat_activity')
      } finally {
        await other.end()
      }
      expect((await scene.backfill()).code).toBe(0)
      expect(await storedTables(scene.url)).toEqual(expectedOf(control.world()))
    },
  )

  it('that is unreachable, or rejects the password, ends every command with 1 and shows no part of the connection string', async () => {
    await using refusing = await startRefusingServer()
    const service = { INTAKE_BASE_URL: 'http://127.0.0.1:9', INTAKE_API_KEY: 'k', INTAKE_API_SECRET: 's' }
    const places = [
      [`127.0.0.1:9`, 'cannot reach the warehouse'],
      [`127.0.0.1:${refusing.port}`, 'the warehouse refused the login'],
    ] as const
    for (const [place, message] of places) {
      const env = { ...service, DATABASE_URL: `postgres://her-login:her-password@${place}/her-database` }
      const commands = [
        ['backfill'],
        ['backfill', '--dry-run'],
        ['status'],
        ['migrate'],
        ['migrate', '--status'],
      ]
      for (const run of await Promise.all(commands.map((words) => runCommand([...words, '--json'], env)))) {
        expect(run.code).toBe(1)
        expect(run.stderr).toContain(message)
        expect(run.stderr).toContain('DATABASE_URL')
        expect(Object.keys(JSON.parse(run.stdout))).toEqual(['error'])
        expect(run.output).not.toMatch(/her-login|her-password|her-database/)
      }
    }
  })

  it('that another run uses stays with that run: the second backfill starts nothing and exits with 3', async () => {
    await using scene = await openScene()
    const { control } = scene.emulator
    control.failNext('/v2/patients', 'hang')
    const first = startCli(['backfill', '--streams', 'patients,forms'], scene.env)
    await until(async () => (await query(scene.url, 'select from intake_ops.run_streams')).length === 1)
    const asked = control.requests().length
    const second = await runCli(['backfill', '--streams', 'patients,forms'], scene.env)
    expect(second).toMatchObject({ code: 3, stdout: '' })
    expect(second.stderr).toMatch(/another run holds patients of default.*; nothing was started/)
    expect(control.requests()).toHaveLength(asked)
    expect(await query(scene.url, 'select status from intake_ops.runs')).toEqual([{ status: 'running' }])
    first.kill('SIGTERM')
    expect((await first.ended).code).toBe(143)
    expect((await scene.backfill()).code).toBe(0)
    expect(await storedTables(scene.url)).toEqual(expectedOf(control.world()))
  })
})

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  for (const deadline = Date.now() + 60_000; !(await condition()); await sleep(20)) {
    if (Date.now() > deadline) throw new Error('waited a minute in vain')
  }
}

/** A Postgres that asks for a password and rejects any. */
async function startRefusingServer(): Promise<{ port: number; [Symbol.asyncDispose](): Promise<void> }> {
  const message = (type: string, body: Buffer) => {
    const length = Buffer.alloc(4)
    length.writeInt32BE(body.length + 4)
    return Buffer.concat([Buffer.from(type), length, body])
  }
  const askForPassword = message('R', Buffer.from([0, 0, 0, 3]))
  const fields = ['SFATAL', 'VFATAL', 'C28P01', 'Mpassword authentication failed for user "her-login"']
  const refusal = message('E', Buffer.from(`${fields.join('\0')}\0\0`))
  const sockets = new Set<net.Socket>()
  const server = net.createServer((socket) => {
    sockets.add(socket.on('error', () => undefined))
    socket.once('data', () => {
      socket.write(askForPassword)
      socket.once('data', () => socket.end(refusal))
    })
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  return {
    port: (server.address() as AddressInfo).port,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise((closed) => server.close(closed))
    },
  }
}
