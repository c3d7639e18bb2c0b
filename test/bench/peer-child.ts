/**
 * The closest public tool at work, in a process of its own: `FOLDER NAME URL events|list`. Prints how many signed
 * webhook events, or records of a list, it writes per second. Both are in memory: no HTTP.
 *
 * Invariant: the figure counts only when every record is a row. The tool connects to Postgres alone: by default it neither
 * fetches related records nor expands lists, and its list is replaced.
 */
import { createHmac } from 'node:crypto'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { timed } from './row.ts'

/** The part of the tool that is measured. */
interface Tool {
  readonly runMigrations: (config: { databaseUrl: string; schema: string }) => Promise<void>
  readonly StripeSync: new (config: {
    schema: string
    stripeSecretKey: string
    stripeWebhookSecret: string
    poolConfig: { connectionString: string }
  }) => {
    readonly stripe: { readonly customers: { list: () => Iterable<unknown> } }
    readonly postgresClient: {
      query(text: string): Promise<{ rows: { count: number }[] }>
      close(): Promise<void>
    }
    processWebhook(body: string, signature: string): Promise<void>
    syncBackfill(options: { object: 'customer' }): Promise<unknown>
  }
}

const BYTES = 1024
const AT_ONCE = 64
const SECRET = 'a secret of the benchmark'
/** More than it writes in this time. */
const MAX_RECORDS = 60_000
/** The first seconds compile the code. */
const [WARM_SECONDS, SECONDS] = [2, 8]

const [folder, name, url, work] = process.argv.slice(2)
if (folder === undefined || name === undefined || url === undefined || (work !== 'events' && work !== 'list'))
  throw new Error('usage: peer-child FOLDER NAME URL events|list')
const { runMigrations, StripeSync } = createRequire(join(folder, 'package.json'))(name) as Tool
await runMigrations({ databaseUrl: url, schema: 'stripe' })
const tool = new StripeSync({
  schema: 'stripe',
  stripeSecretKey: 'none',
  stripeWebhookSecret: SECRET,
  poolConfig: { connectionString: url },
})

let given = 0
const write = work === 'events' ? writeEvents() : writeList()
await write(WARM_SECONDS)
await tool.postgresClient.query('checkpoint')
const warm = given
const { seconds } = await timed(() => write(SECONDS))
const { rows } = await tool.postgresClient.query('select count(*)::int from stripe.customers')
await tool.postgresClient.close()
if (rows[0]?.count !== given) throw new Error(`${rows[0]?.count} of ${given} records are rows`)
process.stdout.write(JSON.stringify((given - warm) / seconds))

/** Events are signed and written out before the clock starts. */
function writeEvents() {
  const events = Array.from({ length: MAX_RECORDS }, (_, at) => eventOf(at)).values()
  return async (most: number) => {
    const left = during(most, events)
    const workers = Array.from({ length: AT_ONCE }, async () => {
      for (const { body, signature } of left) await tool.processWebhook(body, signature)
    })
    await Promise.all(workers)
  }
}

function writeList() {
  const records = Array.from({ length: MAX_RECORDS }, (_, at) => customer(at)).values()
  return async (most: number) => {
    tool.stripe.customers.list = () => during(most, records)
    await tool.syncBackfill({ object: 'customer' })
  }
}

/** What `items` returns in the next seconds. */
function* during<Item>(most: number, items: Iterator<Item>): Generator<Item> {
  const until = performance.now() + most * 1000
  while (performance.now() < until) {
    const { value, done } = items.next()
    if (done === true) return
    given += 1
    yield value
  }
}

function eventOf(index: number) {
  const seconds = Math.trunc(Date.now() / 1000)
  const event = {
    ...{ id: `evt_${index}`, object: 'event', type: 'customer.created', created: seconds, livemode: false },
    data: { object: customer(index) },
  }
  event.data.object.metadata.note = 'lorem ipsum '
    .repeat(BYTES)
    .slice(0, BYTES - JSON.stringify(event).length)
  const body = JSON.stringify(event)
  const mac = createHmac('sha256', SECRET).update(`${seconds}.${body}`).digest('hex')
  return { body, signature: `t=${seconds},v1=${mac}` }
}

function customer(index: number) {
  return {
    ...{
      id: `cus_${index}`,
      object: 'customer',
      name: 'Ann Other',
      email: 'a@example.com',
      phone: '5550199',
    },
    address: { line1: '1 Harbour Road', line2: '', city: 'Springfield', state: 'MA', postal_code: '00501' },
    ...{ description: null, balance: 0, created: 1_767_225_600, currency: 'usd', default_source: null },
    ...{ delinquent: false, discount: null, invoice_prefix: 'A', invoice_settings: { footer: null } },
    ...{ livemode: false, next_invoice_sequence: 1, preferred_locales: ['en'], tax_exempt: 'none' },
    metadata: { note: '' },
  }
}
