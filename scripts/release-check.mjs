// Checks what a release contains at run time, by package-lock.json: no package with a known vulnerability, and a bill of
// materials (CycloneDX 1.5) that is valid and complete, written to dist/sbom.cdx.json.
//
//   npm run release:check                         asks the registry for advisories (npm audit)
//   npm run release:check -- --request            prints what to ask it for, to do so on another machine:
//                                                 curl -d @request.json -H 'content-type: application/json' \
//                                                   https://registry.npmjs.org/-/npm/v1/security/advisories/bulk
//   npm run release:check -- --advisories FILE    reads that answer instead
//
// Exits with 0, 1 where something is wrong or could not be checked, and 2 on wrong usage.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Ajv } from 'ajv'
import addFormats from 'ajv-formats'
import semver from 'semver'

const root = fileURLToPath(new URL('..', import.meta.url))
const print = (text) => process.stdout.write(`${text}\n`)
const readJson = (path) => JSON.parse(readFileSync(path, 'utf8'))

/** The packages of the lock file that a release installs: `[name, version]`. */
function packages() {
  return Object.entries(readJson(`${root}package-lock.json`).packages).flatMap(([path, each]) =>
    path === '' || each.dev ? [] : [[path.slice(path.lastIndexOf('node_modules/') + 13), each.version]],
  )
}

function runNpm(words) {
  const { stdout } = spawnSync('npm', words, { cwd: root, encoding: 'utf8', maxBuffer: 64 << 20 })
  try {
    return JSON.parse(stdout)
  } catch {
    return {}
  }
}

/** The packages with a known vulnerability, a line each; null where nobody could be asked. */
function vulnerable(advisoriesFile) {
  if (advisoriesFile === undefined) {
    const { vulnerabilities } = runNpm(['audit', '--omit=dev', '--json'])
    if (vulnerabilities === undefined) return null
    return Object.values(vulnerabilities).map(({ name, severity, range }) => `${name} ${range}: ${severity}`)
  }
  const advisories = readJson(advisoriesFile)
  return packages().flatMap(([name, version]) =>
    (Object.hasOwn(advisories, name) ? advisories[name] : [])
      .filter((each) => semver.satisfies(version, each.vulnerable_versions, { includePrerelease: true }))
      .map(({ severity, title, url }) => `${name} ${version}: ${severity}, ${title} (${url})`),
  )
}

/** Of what a release installs. `npm sbom --omit=dev` also leaves out what development needs too, such as undici. */
function billOfMaterials() {
  const bill = runNpm(['sbom', '--package-lock-only', '--sbom-format=cyclonedx', '--sbom-type=application'])
  const installed = new Set(packages().map((each) => each.join('@')))
  const isInstalled = (ref) => installed.has(ref)
  if (bill.metadata?.component) bill.metadata.component.name = 'intake-sync'
  return {
    ...bill,
    components: (bill.components ?? []).filter((each) => isInstalled(each['bom-ref'])),
    dependencies: (bill.dependencies ?? [])
      .filter(({ ref }) => isInstalled(ref) || ref === bill.metadata?.component?.['bom-ref'])
      .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter(isInstalled) })),
  }
}

/** The errors of the bill of materials. */
function shortcomings(bill) {
  const ajv = new Ajv({ strict: false, allErrors: true })
  addFormats.default(ajv)
  for (const format of ['iri-reference', 'idn-email']) ajv.addFormat(format, true)
  const schema = (name) => readJson(`${root}test/shipping/schema/${name}.schema.json`)
  for (const name of ['spdx', 'jsf-0.82']) ajv.addSchema(schema(name))
  const isValid = ajv.compile(schema('bom-1.5'))
  isValid(bill)
  const listed = new Set((bill.components ?? []).map((each) => each['bom-ref']))
  return [
    ...(isValid.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`),
    ...packages().flatMap((each) => (listed.has(each.join('@')) ? [] : [`${each.join('@')} is missing`])),
  ]
}

let options
try {
  options = parseArgs({
    options: { advisories: { type: 'string' }, out: { type: 'string' }, request: { type: 'boolean' } },
  }).values
  if (options.advisories !== undefined && !existsSync(options.advisories))
    throw new Error(`There is no file ${options.advisories}`)
} catch (error) {
  process.stderr.write(`${error.message}\n`)
  process.exit(2)
}

if (options.request) {
  const versions = {}
  for (const [name, version] of packages())
    versions[name] = [...new Set([...(versions[name] ?? []), version])]
  print(JSON.stringify(versions))
  process.exit(0)
}

const found = vulnerable(options.advisories)
if (found === null)
  print('advisories: the registry did not answer (see --request and --advisories for another way)')
else print(`advisories: ${packages().length} packages, ${found.length} with a known vulnerability`)
for (const each of found ?? []) print(`  ${each}`)

const bill = billOfMaterials()
const wrong = shortcomings(bill)
const out = resolve(options.out ?? `${root}dist/sbom.cdx.json`)
print(`bill of materials: ${bill.components?.length ?? 0} components, ${wrong.length} errors, in ${out}`)
for (const each of wrong) print(`  ${each}`)
mkdirSync(dirname(out), { recursive: true })
writeFileSync(out, `${JSON.stringify(bill, null, 2)}\n`)
process.exitCode = found?.length === 0 && wrong.length === 0 ? 0 : 1
