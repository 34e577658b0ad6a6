// Uses the runs page in Chromium as an operator does. Each claim that holds is a line on stdout; the first that does not
// ends the program with exit code 1. From the environment: GATEWAY, KEY, CLIENT_KEY, CHROMIUM, and SHOTS, a folder for
// screenshots, if they are wanted.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

const { GATEWAY, KEY, CLIENT_KEY, CHROMIUM, SHOTS } = process.env;
const axe = readFileSync(createRequire(process.cwd() + '/').resolve('axe-core/axe.min.js'), 'utf8');
const hostile = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>';

const browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox', '--disable-gpu'] });
const context = await browser.newContext({ viewport: { width: 1200, height: 900 }, colorScheme: 'light' });
const page = await context.newPage();
page.setDefaultTimeout(20000);

const wrong = []; // what must not happen at any time
let expected = [];
page.on('console', (m) => {
  if (['error', 'warning'].includes(m.type()) && !expected.some((e) => m.text().includes(e))) wrong.push(`console: ${m.text()}`);
});
page.on('pageerror', (e) => wrong.push(`script: ${e}`));
page.on('dialog', (d) => { wrong.push(`dialog: ${d.message()}`); d.dismiss(); });
page.on('request', (r) => { if (!r.url().startsWith(GATEWAY + '/gateway/')) wrong.push(`request: ${r.url()}`); });
await page.addInitScript(() => {
  window.violations = [];
  document.addEventListener('securitypolicyviolation', (e) => window.violations.push(`${e.violatedDirective} ${e.blockedURI}`));
});

async function claim(text, check) {
  try {
    await check();
    assert.deepEqual(wrong, []);
    assert.deepEqual(await page.evaluate(() => ({ violations: window.violations, ran: !!window.pwned })), { violations: [], ran: false });
  } catch (e) {
    console.log(`FAIL ${text}\n${e.stack}\n${await page.locator('main').innerText().catch(() => '')}`);
    await shot('failed');
    await browser.close();
    process.exit(1);
  }
  console.log(`ok ${text}`);
}

const shot = (name) => (SHOTS ? page.screenshot({ path: `${SHOTS}/${name}.png`, fullPage: true }) : null);

async function ask(model, content) {
  const reply = await fetch(GATEWAY + '/v1/chat/completions', {
    method: 'POST', headers: { 'Content-Type': 'application/json', Authorization: 'Bearer ' + CLIENT_KEY },
    body: JSON.stringify({ model, messages: [{ role: 'user', content }] }),
  });
  return { status: reply.status, trace: reply.headers.get('X-Gateway-Trace'), text: (await reply.json()).choices?.[0].message.content };
}

// accessible holds the page as it is now against axe's rules.
async function accessible() {
  const devtools = await context.newCDPSession(page); // scripts that come this way are none of the page's policy
  await devtools.send('Runtime.evaluate', { expression: axe });
  const { result, exceptionDetails } = await devtools.send('Runtime.evaluate', {
    expression: `axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}).then((r) => JSON.stringify(r.violations.map((v) => [v.impact, v.id, v.nodes.slice(0, 3).map((n) => n.html + ' ' + n.failureSummary)])))`,
    awaitPromise: true, returnByValue: true,
  });
  await devtools.detach();
  assert.equal(exceptionDetails, undefined);
  assert.equal(result.value, '[]');
}

async function inEachScheme(name) {
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    await accessible();
    await shot(`${name}-${colorScheme}`);
  }
  await page.setViewportSize({ width: 360, height: 740 });
  const [scroll, width] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(scroll <= width, `at 360 px the page is ${scroll} px wide`);
  await accessible();
  await shot(`${name}-narrow`);
  await page.setViewportSize({ width: 1200, height: 900 });
  await page.emulateMedia({ colorScheme: 'light' });
}

const rows = page.locator('#run-table tbody tr');
const heading = () => page.evaluate(() => document.activeElement.textContent);

await claim('without a key the page asks for one', async () => {
  expected = ['401'];
  await page.goto(GATEWAY + '/gateway/ui');
  await page.getByLabel('Key of the gateway').waitFor();
  assert.equal(await page.locator('#key-reason').isVisible(), false);
  assert.equal(await page.locator('#key-cancel').isVisible(), false);
  await inEachScheme('key');
});

await claim('a key that is not taken is told with the reason', async () => {
  await page.getByLabel('Key of the gateway').fill('wrong');
  await page.keyboard.press('Enter');
  await page.getByText('The key was not taken: no valid API key').waitFor();
});

await claim('a key opens the list, which says that there is nothing', async () => {
  await page.getByLabel('Key of the gateway').fill(KEY);
  await page.keyboard.press('Enter');
  await page.getByText('No run yet.').waitFor();
  expected = [];
  assert.equal(await page.evaluate(() => localStorage.length), 0);
  assert.ok(!page.url().includes(KEY));
  await shot('empty');
});

await claim('runs appear by themselves', async () => {
  assert.equal((await ask('assistant', 'stock')).status, 200);
  await rows.first().waitFor();
  const text = await rows.first().innerText();
  for (const want of ['assistant', 'completed', 'stock', 'client', '1 failed']) assert.ok(text.includes(want), `${want} in ${text}`);
});

await claim('what strangers write is text', async () => {
  await ask(hostile, 'hello');
  await ask('assistant', 'hostile');
  await ask('slow', 'timeout');
  await rows.nth(3).waitFor();
  assert.ok((await page.locator('#run-table').innerText()).includes(hostile));
  await inEachScheme('runs');
});

await claim('filters choose, and stand in the address', async () => {
  await page.getByLabel('Ended').selectOption('timeout');
  await page.waitForFunction(() => document.querySelectorAll('#run-table tbody tr').length === 1);
  assert.ok(page.url().endsWith('#/runs?stop=timeout'));
  await page.getByRole('button', { name: 'Clear' }).click();
  await rows.nth(3).waitFor();
  await page.getByLabel('Tool', { exact: true }).fill('nothing');
  await page.getByText('No run is as asked for.').waitFor();
  await page.getByRole('button', { name: 'Clear' }).click();
  await rows.nth(3).waitFor();
});

await claim('a run is opened by the keyboard alone', async () => {
  await page.reload();
  await rows.nth(3).waitFor();
  await page.keyboard.press('Tab');
  assert.equal(await heading(), 'Skip to content');
  await page.keyboard.press('Enter');
  for (let i = 0; i < 20 && !(await page.evaluate(() => document.activeElement.closest('#run-table'))); i++) await page.keyboard.press('Tab');
  for (const key of ['ArrowDown', 'ArrowDown', 'ArrowDown', 'Enter']) await page.keyboard.press(key);
  await page.locator('.waterfall').waitFor();
  assert.equal(await heading(), 'Run');
});

await claim('the bars stand where the time went', async () => {
  const bars = await page.locator('.waterfall .track').evaluateAll((tracks) => tracks.map((t) => {
    const lane = t.getBoundingClientRect();
    const bar = t.firstChild.getBoundingClientRect();
    return { from: (bar.left - lane.left) / lane.width, to: (bar.right - lane.left) / lane.width, kind: t.firstChild.className };
  }));
  assert.deepEqual(bars.map((b) => b.kind), ['bar model', 'bar tool', 'bar tool bad', 'bar model']);
  const [first, good, failed, last] = bars;
  assert.ok(first.from < 0.02 && first.to > 0.2, JSON.stringify(bars)); // 300 ms
  assert.ok(good.from >= first.to - 0.01 && good.to - good.from > 0.1, JSON.stringify(bars)); // 200 ms
  assert.ok(last.from >= Math.max(good.to, failed.to) - 0.01 && last.to > 0.97, JSON.stringify(bars)); // 300 ms
  const text = await page.locator('.waterfall').innerText();
  for (const want of ['Model call 1', 'stock', 'Model call 2', 'ok', '"item": "cup"', '"left": 7', '<script>window.pwned=1</script>', 'not found']) assert.ok(text.includes(want), `${want} in ${text}`);
  await inEachScheme('run');
});

await claim('arguments and results of strangers are text', async () => {
  await page.getByRole('link', { name: '← All runs' }).click();
  await rows.nth(1).click();
  await page.locator('pre').first().waitFor();
  const text = await page.locator('.waterfall').innerText();
  assert.ok(text.includes(`<img src=x onerror=\\"window.pwned=1\\">`), text);
  assert.equal(await page.locator('main img, main script').count(), 0);
  await page.goBack();
});

await claim('a run that is not there is told', async () => {
  expected = ['404'];
  await page.goto(GATEWAY + '/gateway/ui#/runs/run_01J8Z3K2M4N5P6Q7R8S9T0V1W2');
  await page.getByText('There is no such run that this key may see').waitFor();
  expected = [];
});

await claim('tools show what the model sees, and how they fare', async () => {
  await page.getByRole('link', { name: 'Tools' }).click();
  const card = page.getByRole('article', { name: 'stock' });
  await card.waitFor();
  const text = await card.innerText();
  for (const want of ['How many there are of an item.', '2 calls since the start, 1 failed', 'working', 'read', 'item', 'required', 'string']) assert.ok(text.includes(want), `${want} in ${text}`);
  await card.getByText('What the model is told').click();
  assert.ok((await card.locator('pre').innerText()).includes('"function"'));
  await inEachScheme('tools');
});

await claim('an approval is given, and the next request goes on', async () => {
  const first = await ask('assistant', 'cancel');
  assert.ok(first.trace.includes('stop=confirmation'), first.trace);
  await page.getByRole('link', { name: /Approvals 1 waiting/ }).click();
  const card = page.getByRole('article', { name: 'cancel waits' });
  await card.waitFor();
  assert.ok((await card.innerText()).includes('"item": "cup"'));
  await inEachScheme('approvals');
  await card.getByRole('button', { name: 'Approve cancel' }).focus();
  await page.keyboard.press('Enter');
  await page.getByText('Nothing waits.').waitFor();
  assert.equal(await heading(), 'Approvals');
  const second = await ask('assistant', 'cancel');
  assert.ok(second.trace.includes('stop=completed') && second.text.includes('done'), JSON.stringify(second));
});

await claim('an approval is denied', async () => {
  await ask('assistant', 'deny');
  await page.getByRole('button', { name: 'Deny cancel' }).click();
  await page.getByText('Nothing waits.').waitFor();
});

await claim('while nothing changes, next to nothing is sent', async () => {
  await page.getByRole('link', { name: 'Runs' }).click();
  await rows.first().waitFor();
  await page.waitForResponse((r) => r.status() === 304);
  const statuses = [];
  const note = (r) => statuses.push(r.status());
  page.on('response', note);
  await page.waitForTimeout(4500);
  page.off('response', note);
  assert.ok(statuses.length >= 2 && statuses.length <= 8 && statuses.every((s) => s === 304), String(statuses));
});

await claim('what pauses is asked no more, and goes on again', async () => {
  await page.getByRole('button', { name: 'Live' }).click();
  const before = await rows.count();
  await ask('slow', 'hello');
  await page.waitForTimeout(2500);
  assert.equal(await rows.count(), before);
  await page.getByRole('button', { name: 'Paused' }).click();
  await page.waitForFunction((n) => document.querySelectorAll('#run-table tbody tr').length > n, before);
});

await claim('a key that is changed leaves nothing of what the last one saw', async () => {
  expected = ['401'];
  await page.getByRole('button', { name: 'Change key' }).click();
  await page.getByRole('button', { name: 'Forget the key' }).click();
  await page.getByLabel('Key of the gateway').waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  assert.equal(await rows.count(), 0);
});

await browser.close();
