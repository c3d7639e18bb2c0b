/**
 * A command that uses the embedded server, for tests that kill it. It opens the server, prints one line of JSON, and
 * closes the server when its standard input ends. On SIGINT it first runs a query, like a command that finishes its
 * current batch. Plain JavaScript that loads the built server: tests start it often, and a TypeScript loader would take
 * longer than its work.
 */
import pg from 'pg'

const [built, dataDir] = process.argv.slice(2)
const { openEmbedded } = await import(built)

const say = (event) => process.stdout.write(`${JSON.stringify(event)}\n`)
const notices = []

try {
  const server = await openEmbedded({
    dataDir,
    unsafe: true,
    onNotice: (line) => notices.push(line),
  })
  const end = async (farewell) => {
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
  say({ error: String(error), hint: error.hint })
  process.exitCode = 1
}
