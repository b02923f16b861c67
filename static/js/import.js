/* Sends a file in parts, since a request has a limit, and shows how far it is. */

(() => {
  const form = document.getElementById("upload");
  const input = form.querySelector("input[type=file]");
  const progress = document.getElementById("upload-progress");
  const problem = document.getElementById("upload-problem");
  const partBytes = Number(input.dataset.partBytes);

  async function send(address, fields) {
    const body = new FormData();
    body.append("csrfmiddlewaretoken", form.querySelector("[name=csrfmiddlewaretoken]").value);
    Object.entries(fields).forEach(([name, value]) => body.append(name, value));
    const response = await fetch(address, { method: "POST", body });
    const answer = await response.json().catch(() => ({}));
    if (!response.ok) throw new Error(answer.error || `The upload failed (status ${response.status}).`);
    return answer;
  }

  async function upload(file) {
    const run = await send(form.action, { name: file.name, size: file.size });
    const parts = Math.max(1, Math.ceil(file.size / partBytes));
    for (let number = 0; number < parts; number += 1) {
      const part = file.slice(number * partBytes, (number + 1) * partBytes);
      await send(run.parts, { number, part, ...(number === parts - 1 ? { last: 1 } : {}) });
      progress.querySelector("progress").value = (number + 1) / parts;
    }
    window.location = run.page;
  }

  form.addEventListener("submit", async (event) => {
    const file = input.files[0];
    if (!file || file.size <= partBytes) return;
    event.preventDefault();
    const button = form.querySelector("button");
    button.disabled = true;
    progress.hidden = false;
    problem.hidden = true;
    try {
      await upload(file);
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
      progress.hidden = true;
      button.disabled = false;
    }
  });
})();
