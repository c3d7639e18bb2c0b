/**
 * Creates the dashboard of metabase.json in a Metabase, with its questions:
 *
 *     METABASE_URL=https://metabase.example.com METABASE_API_KEY=… node docs/dashboards/metabase.mjs "Name of the database"
 *
 * The database is a connection of Metabase to the warehouse, with a login that has the role intake_analyst. The name may be
 * left out where there is one Postgres connection.
 */
import { readFileSync } from 'node:fs'

const { METABASE_URL, METABASE_API_KEY } = process.env
const fail = (text) => {
  process.stderr.write(`${text}\n`)
  process.exit(1)
}
if (!METABASE_URL || !METABASE_API_KEY) fail('set METABASE_URL and METABASE_API_KEY')

async function call(method, path, body) {
  const response = await fetch(new URL(`/api/${path}`, METABASE_URL), {
    method,
    headers: { 'content-type': 'application/json', 'x-api-key': METABASE_API_KEY },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  if (!response.ok) fail(`${method} ${path}: Metabase answered ${response.status}`)
  return await response.json()
}

const { name, description, cards } = JSON.parse(
  readFileSync(new URL('metabase.json', import.meta.url), 'utf8'),
)
const listed = await call('GET', 'database')
const databases = (listed.data ?? listed).filter(
  ({ engine, name: own }) =>
    engine === 'postgres' && (process.argv[2] === undefined || own === process.argv[2]),
)
if (databases.length !== 1) fail(`${databases.length} Postgres connections of Metabase fit: name one of them`)

const dashboard = await call('POST', 'dashboard', { name, description })
const dashcards = []
for (const [place, { query, position, ...card }] of cards.entries()) {
  const dataset_query = { type: 'native', native: { query }, database: databases[0].id }
  const { id } = await call('POST', 'card', { ...card, dataset_query })
  dashcards.push({ id: -1 - place, card_id: id, ...position })
}
await call('PUT', `dashboard/${dashboard.id}`, { dashcards })
process.stdout.write(`${new URL(`/dashboard/${dashboard.id}`, METABASE_URL)}\n`)
