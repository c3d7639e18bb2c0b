/** A program that speaks enough of Postgres's protocol to be taken for a server, and notes what it is asked. */
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'

export interface PlayedPostgres {
  readonly port: number
  /** Of each session that was let in, in order. */
  readonly databases: string[]
  readonly statements: string[]
  /** Sessions that are open. */
  readonly connections: number
  /** What becomes of the next sessions: the SQLSTATE that they are refused with, or `reset`. */
  readonly refusals: string[]
  /** The SQLSTATE that a statement fails with, or `reset`. */
  readonly fails: Map<string, string>
  dataDirectory: string
  hasDatabase: boolean
  close(): Promise<void>
}

export async function playPostgres(password: string, dataDirectory: string): Promise<PlayedPostgres> {
  const open = new Set<Socket>()
  const server = createServer((socket) => {
    open.add(socket.on('error', () => undefined).once('close', () => open.delete(socket)))
    serve(socket, password, played)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const played: PlayedPostgres = {
    ...{ port: (server.address() as { port: number }).port, databases: [], statements: [], refusals: [] },
    ...{ fails: new Map(), dataDirectory, hasDatabase: false },
    get connections() {
      return open.size
    },
    async close() {
      for (const socket of open) socket.destroy()
      await new Promise((closed) => server.close(closed))
    },
  }
  return played
}

function message(type: string, body: Buffer): Buffer {
  const head = Buffer.alloc(5, type)
  head.writeInt32BE(body.length + 4, 1)
  return Buffer.concat([head, body])
}

const number = (value: number) => {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32BE(value)
  return bytes
}
const READY = message('Z', Buffer.from('I'))
const LET_IN = Buffer.concat([message('R', number(0)), READY])
const failure = (code: string) => message('E', Buffer.from(`SERROR\0VERROR\0C${code}\0Mfor a test\0\0`))
/** One column of text. */
const COLUMN = message(
  'T',
  Buffer.concat([
    Buffer.from([0, 1]),
    Buffer.from('data_directory\0'),
    Buffer.from([...[0, 0, 0, 0, 0, 0, 0, 0, 0, 25, 255, 255, 255, 255, 255, 255, 0, 0]]),
  ]),
)
const row = (text: string) =>
  message('D', Buffer.concat([Buffer.from([0, 1]), number(Buffer.byteLength(text)), Buffer.from(text)]))
const complete = (tag: string) => message('C', Buffer.from(`${tag}\0`))

function serve(socket: Socket, password: string, played: PlayedPostgres): void {
  let input = Buffer.alloc(0)
  let database: string | undefined
  let asked = ''
  const rowsOf = (statement: string): string[] => {
    if (statement === 'show data_directory') return [played.dataDirectory]
    return statement.startsWith('select 1') && played.hasDatabase ? ['1'] : []
  }
  /** The result of a statement without its columns. */
  const resultOf = (statement: string): Buffer => {
    played.statements.push(statement)
    const code = played.fails.get(statement)
    if (code === 'reset') socket.resetAndDestroy()
    if (code !== undefined) return failure(code)
    const rows = rowsOf(statement)
    return Buffer.concat([
      ...rows.map(row),
      complete(statement.startsWith('create') ? 'CREATE DATABASE' : `SELECT ${rows.length}`),
    ])
  }
  const begin = (text: string) => {
    const words = text.split('\0')
    database = words[words.indexOf('database') + 1]!
    const refusal = played.refusals.shift()
    if (refusal === 'reset') socket.resetAndDestroy()
    else if (refusal !== undefined) socket.end(failure(refusal))
    else socket.write(message('R', number(3)))
  }
  const handle = (type: string, body: Buffer) => {
    const text = body.toString('utf8')
    if (type === 'p') {
      if (text.replace('\0', '') !== password) return void socket.end(failure('28P01'))
      played.databases.push(database!)
      socket.write(LET_IN)
    } else if (type === 'Q') {
      const statement = text.slice(0, -1)
      socket.write(Buffer.concat([COLUMN, resultOf(statement), READY]))
    } else if (type === 'P') {
      asked = text.split('\0')[1]!
      socket.write(message('1', Buffer.alloc(0)))
    } else if (type === 'B') socket.write(message('2', Buffer.alloc(0)))
    else if (type === 'D') socket.write(COLUMN)
    else if (type === 'E') socket.write(resultOf(asked))
    else if (type === 'S') socket.write(READY)
    else socket.end()
  }
  socket.on('data', (chunk) => {
    input = Buffer.concat([input, chunk])
    for (;;) {
      // The first message has no type.
      const start = database === undefined ? 0 : 1
      if (input.length < start + 4) return
      const end = start + input.readInt32BE(start)
      if (input.length < end) return
      const [type, body] = [input.subarray(0, start).toString('latin1'), input.subarray(start + 4, end)]
      input = input.subarray(end)
      if (start === 0) begin(body.subarray(4).toString('utf8'))
      else handle(type, body)
    }
  })
}
