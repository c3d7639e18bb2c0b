/**
 * A command that uses the embedded server, for tests to kill: opens it, says so on standard output in one line of
 * JSON, and ends its use when its standard input closes. On SIGINT it asks the server something first, as a command
 * does that finishes the batch in hand.
 */
import pg from 'pg'
import { IntakeError } from '../../src/core/errors.ts'
import { openEmbedded } from '../../src/warehouse/embedded/server.ts'

const say = (event: object) => process.stdout.write(`${JSON.stringify(event)}\n`)
const notices: string[] = []

try {
  const server = await openEmbedded({
    dataDir: process.argv[2]!,
    unsafe: true,
    onNotice: (line) => notices.push(line),
  })
  const end = async (farewell: object) => {
    process.stdin.destroy()
    await server.stop()
    say(farewell)
  }
  process.stdin.resume().once('close', () => void end({ stopped: true }))
  process.once('SIGINT', async () => {
    process.stdin.removeAllListeners('close')
    const client = new pg.Client({ connectionString: server.url })
    await client.connect()
    const { rows } = await client.query('select 1 as answer')
    await client.end()
    await end(rows[0])
  })
  say({ url: server.url, directory: server.directory, notices })
} catch (error) {
  say({ error: String(error), mend: error instanceof IntakeError ? error.mend : undefined })
  process.exitCode = 1
}
