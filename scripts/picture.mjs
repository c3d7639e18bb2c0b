// Renews docs/console.png, the picture at the start of README.md: the streams of the demo's console. Needs a build and
// Chromium (Debian's package, or the one that CHROMIUM names). Usage: node scripts/picture.mjs [--link URL] [--out FILE]
// With --link, which logs in as an operator, it takes the picture of a demo that runs already.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { chromium } from 'playwright-core'

const root = fileURLToPath(new URL('..', import.meta.url))
const { values } = parseArgs({ options: { link: { type: 'string' }, out: { type: 'string' } } })

if (values.link !== undefined) await takePicture(values.link)
else {
  const folder = mkdtempSync(join(tmpdir(), 'intake-sync-picture-'))
  const env = { ...process.env, INTAKE_DATA_DIR: join(folder, 'data') }
  const demo = spawn(process.execPath, [`${root}dist/cli.js`, 'demo', '--stay'], { env })
  const ended = new Promise((resolve) => demo.once('exit', resolve))
  demo.stderr.pipe(process.stderr)
  try {
    const link = await new Promise((resolve, reject) => {
      let said = ''
      demo.stdout.on('data', (data) => {
        said += data
        const found = /http:\/\/\S+\/login\?link=\S+(?=\s)/.exec(said)
        if (found !== null) resolve(found[0])
      })
      demo.once('exit', () => reject(new Error('the demo ended without a link')))
    })
    await takePicture(link)
  } finally {
    demo.kill('SIGTERM')
    await ended
    rmSync(folder, { recursive: true, force: true })
  }
}

async function takePicture(link) {
  const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium'
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] })
  const page = await browser.newPage({ viewport: { width: 1_100, height: 620 } })
  await page.goto(link)
  await page.getByRole('button', { name: 'Log in' }).click()
  const { origin } = new URL(link)
  await page.goto(`${origin}/verify`)
  await page.getByRole('button', { name: 'Verify', exact: true }).click()
  await page.locator('main:not([data-waits])').waitFor({ timeout: 120_000 })
  await page.goto(`${origin}/streams`)
  await page.locator('main:not([data-waits])').waitFor()
  // As wide as its table: nothing is cut off.
  const missing = await page.evaluate(
    'Math.max(...[...document.querySelectorAll(".scroll")].map((each) => each.scrollWidth - each.clientWidth))',
  )
  await page.setViewportSize({ width: 1_100 + missing, height: 620 })
  const cut = await page.evaluate(
    '[...document.querySelectorAll(".scroll")].some((each) => each.scrollWidth > each.clientWidth)',
  )
  if (cut) throw new Error('the picture would be cut off at the right')
  await page.screenshot({ path: values.out ?? `${root}docs/console.png` })
  await browser.close()
}
