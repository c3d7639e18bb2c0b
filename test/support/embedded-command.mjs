/**
 * A command that uses the embedded server, for tests to kill: opens it, says so on standard output in one line of
 * JSON, and ends its use when its standard input closes. On SIGINT it asks the server something first, as a command
 * does that finishes the batch in hand. JavaScript, and given the folder of the built server: tests start it often,
 * and a loader would take longer than what it does.
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
