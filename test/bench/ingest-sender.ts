/**
 * Sends signed events to an endpoint, in a process of its own: bodies are signed and requests written out before the
 * clock starts, over plain sockets, so that the sender needs little of the machine.
 *
 * `{"origin", "events", "bytes", "connections", "seed", "secret", "rate"}`, then a line `go`: each connection sends its
 * next event when the last is answered; with `rate`, events are due at regular times, and the latency of each is counted
 * from its due time, so that a pause counts for all events that it delayed. Prints one line of JSON. Ends with its
 * standard input.
 */
import { connect, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { SIGNATURE_HEADER, sign } from '../../src/core/signature.ts'

export interface SendOrders {
  readonly origin: string
  readonly events: number
  /** Of one body. */
  readonly bytes: number
  readonly connections: number
  /** Makes the ids of this run unique. */
  readonly seed: string
  readonly secret: string
  /** Events per second; as fast as they are answered by default. */
  readonly rate?: number
  /** Each event contains a complete patient, so that it is loaded without a fetch. */
  readonly whole?: boolean
}

export interface SendReport {
  readonly acknowledged: number
  readonly refused: number
  readonly seconds: number
  /** Milliseconds to the answer. */
  readonly median: number
  readonly p99: number
  readonly greatest: number
}

const orders = JSON.parse(process.argv[2] ?? '{}') as SendOrders
const { hostname, port, host } = new URL(orders.origin)

/** Fields of a patient in addition to those of every event. */
const PATIENT = {
  ...{
    external_id: 'EHR-1',
    first_name: 'Ann',
    last_name: 'Other',
    email: 'a@example.com',
    phone_number: '',
  },
  ...{ date_birth: '1980-02-29', sex_at_birth: 'Female', provider: null, address: '1 Harbour Road' },
  ...{ address2: '', city: 'Springfield', state: 'MA', zipcode: '00501', created_at: '2026-01-01T00:00:00Z' },
  emergency_contact: { first_name: 'Bo', last_name: 'Other', phone_number: '5550199' },
  patient_tags: [{ name: 'VIP', color: '#ff0000' }],
}

const requests = Array.from({ length: orders.events }, (_, at) => {
  const id = `${orders.seed}-${at}`
  const envelope = {
    id,
    timestamp: new Date().toISOString(),
    event_type: 'updated',
    source: 'patient',
    data: {
      id: `patient-${id}`,
      ...(orders.whole === true ? PATIENT : {}),
      updated_at: new Date().toISOString(),
      custom_fields: { note: '' },
    },
  }
  envelope.data.custom_fields.note = 'lorem ipsum '
    .repeat(orders.bytes)
    .slice(0, orders.bytes - JSON.stringify(envelope).length)
  const body = Buffer.from(JSON.stringify(envelope))
  const head = `POST /webhooks HTTP/1.1\r\nHost: ${host}\r\nContent-Type: application/json\r\n${SIGNATURE_HEADER}: ${sign(body, orders.secret)}\r\nContent-Length: ${body.length}\r\n\r\n`
  return Buffer.concat([Buffer.from(head), body])
})

const took = new Float64Array(orders.events)
let next = 0
let answered = 0
let acknowledged = 0
let done: () => void = () => {}

interface Sender {
  send(dueAt: number): void
}

async function openSender(onAnswer: (sender: Sender) => void): Promise<Sender> {
  const socket: Socket = connect(Number(port), hostname)
  socket.setNoDelay(true)
  await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject))
  let sentAt = 0
  let received = ''
  const sender: Sender = {
    send(dueAt) {
      sentAt = dueAt
      socket.write(requests[next++]!)
    },
  }
  socket.on('data', (part) => {
    received += part.toString('latin1')
    const end = received.indexOf('\r\n\r\n')
    if (end < 0) return
    const length = Number(/content-length: (\d+)/i.exec(received)?.[1] ?? 0)
    if (received.length < end + 4 + length) return
    took[answered++] = performance.now() - sentAt
    if (received.startsWith('HTTP/1.1 200')) acknowledged += 1
    received = ''
    if (answered === orders.events) done()
    else onAnswer(sender)
  })
  return sender
}

async function run(): Promise<SendReport> {
  const free: Sender[] = []
  /** Due times of events that found no free connection. */
  const late: number[] = []
  const onAnswer = (sender: Sender) => {
    if (orders.rate === undefined) {
      if (next < requests.length) sender.send(performance.now())
    } else if (late.length > 0) sender.send(late.shift()!)
    else free.push(sender)
  }
  for (let at = 0; at < orders.connections; at += 1) free.push(await openSender(onAnswer))
  const finished = new Promise<void>((resolve) => {
    done = resolve
  })
  const begun = performance.now()
  if (orders.rate === undefined) for (const sender of free) sender.send(performance.now())
  else {
    let due = 0
    const timer = setInterval(() => {
      for (; due < requests.length && begun + (due * 1000) / orders.rate! <= performance.now(); due += 1) {
        const dueAt = begun + (due * 1000) / orders.rate!
        const sender = free.shift()
        if (sender === undefined) late.push(dueAt)
        else sender.send(dueAt)
      }
      if (due === requests.length) clearInterval(timer)
    }, 1)
  }
  await finished
  const seconds = (performance.now() - begun) / 1000
  took.sort()
  const at = (part: number) => took[Math.min(took.length - 1, Math.floor(took.length * part))]!
  const refused = answered - acknowledged
  return { acknowledged, refused, seconds, median: at(0.5), p99: at(0.99), greatest: at(1) }
}

const lines = createInterface({ input: process.stdin })
lines.once('line', () => void run().then((report) => process.stdout.write(`${JSON.stringify(report)}\n`)))
lines.once('close', () => process.exit(0))
process.stdout.write('ready\n')
